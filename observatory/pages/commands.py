"""A specification as the command line that asks the same of the same instrument."""

import shlex
from collections.abc import Mapping
from typing import Any

from runners.spec import Arrivals, RunSpec


def bench_command(spec: Mapping[str, Any]) -> str:
    """``python -m runners bench ...``, one option a line; what is at its default is left out. Raises SpecError."""
    asked = RunSpec.from_json(dict(spec))
    target, load, work = asked.target, asked.load, asked.workload
    options: list[tuple[str, object]] = [
        ("--url", target.url),
        ("--model", target.model or None),
        ("--dialect", target.dialect.value),
        ("--api-key-env", target.api_key_env or None),
    ]
    levels = ",".join(f"{level:g}" for level in load.levels)
    if load.arrivals is Arrivals.CLOSED:
        options += [("--concurrency", levels)]
    else:
        options += [("--rate", levels), ("--arrivals", load.arrivals.value)]
    options += [
        ("--requests", load.requests),
        ("--duration", load.duration_s),
        ("--warmup", load.warmup_s or None),
        ("--input-tokens", work.input_tokens),
        ("--output-tokens", work.output_tokens),
        ("--seed", work.seed),
        ("--slo", ",".join(f"{key}={bound:g}" for key, bound in asked.slo.bounds().items()) or None),
        ("--power", asked.power.source),
        ("--out", "results"),
    ]
    lines = [f"{name} {shlex.quote(_text(value))}" for name, value in options if value is not None]
    return " \\\n  ".join(["python -m runners bench", *lines])


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
