from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from observatory.compare.stages import Number, StageResult


def make_stage(seed: int = 1, scale: float = 1.0, n: int = 500, **changes: Any) -> StageResult:
    """A good stage of ``n`` requests, all its times multiplied by ``scale``."""
    generator = np.random.default_rng(seed)
    ttft = scale * 120 * generator.lognormal(0, 0.2, n)
    samples = {"ttft_ms": ttft, "e2e_ms": ttft + scale * 900}
    numbers = {("input_tokens", "mean"): Number(128, n=n), ("output_tokens", "mean"): Number(64, n=n)}
    for metric, values in samples.items():
        numbers[metric, "mean"] = Number(float(values.mean()), n=n)
        numbers[metric, "p50"] = Number(float(np.percentile(values, 50)), n=n)
        if n >= 459:
            numbers[metric, "p99"] = Number(float(np.percentile(values, 99)), n=n)
    for metric, value in (
        ("output_tokens_per_s", 60 / scale),
        ("goodput_per_s", 0.9 / scale),
        ("wh_per_query", 0.01 * scale),
        ("usd_per_mtok_output", 0.9 * scale),
    ):
        numbers[metric, "mean"] = Number(value, value * 0.98, value * 1.02, n)
    fields: dict[str, Any] = {
        "label": f"run {seed}",
        "run_id": seed,
        "stage_index": 0,
        "load_kind": "concurrency",
        "load_value": 4.0,
        "run_valid": True,
        "run_reason": "",
        "verdict": "ok",
        "definitions_version": 1,
        "input_tokens": 128,
        "output_tokens": 64,
        "slo": {"ttft_ms": 500.0},
        "energy_boundary": "accelerator+cpu",
        "energy_mark": "measured",
        "price_basis": "rent",
        "numbers": numbers,
        "samples": samples,
        "setup": {"model": "smollm2", "engine": "llama.cpp"},
    }
    return StageResult(**{**fields, **changes})


@pytest.fixture
def stage() -> Callable[..., StageResult]:
    return make_stage
