"""A small simulation of a server whose times grow with concurrency: the same plan gives the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from observatory.compare.samples import stage_samples
from runners.load.records import SCHEMA
from runners.metrics import PERCENTILE_MIN_N
from runners.spec import Slo

NS = 1_000_000_000
MONOTONIC_START_NS = 5_000 * NS

POWER_SCHEMA = pa.schema(
    [("t_ns", pa.int64()), ("device", pa.string()), ("power_mw", pa.int64()), ("energy_mj", pa.int64())]
)


@dataclass(frozen=True)
class Plan:
    """What the simulated run is like. ``energy``: measured, modelled or empty."""

    levels: Sequence[float] = (1, 2, 4, 8)
    requests: int = 120
    input_tokens: int = 128
    output_tokens: int = 32
    ttft_ms: float = 60.0
    tpot_ms: float = 9.0
    failures: int = 0
    energy: str = "measured"
    usd_per_hour: float | None = 2.4
    slo: Slo = field(default_factory=Slo)
    client_limited: Sequence[float] = ()
    seed: int = 0


def request_rows(plan: Plan) -> tuple[pa.Table, list[tuple[int, int]]]:
    """Request rows of all stages and the window (start_ns, end_ns) of each: closed loop, ``level`` in flight."""
    generator = np.random.default_rng(plan.seed)
    rows: list[dict[str, Any]] = []
    windows, clock = [], MONOTONIC_START_NS
    for stage, level in enumerate(plan.levels):
        slots = [clock + i * 3_000_000 for i in range(int(level))]
        stage_rows = []
        for index in range(plan.requests):
            slot = int(np.argmin(slots))
            failed = index >= plan.requests - plan.failures
            row = _request(generator, plan, stage, index, slots[slot], level, failed)
            slots[slot] = row["end_ns"] + 400_000
            stage_rows.append(row)
        windows.append((clock, max(row["sent_ns"] for row in stage_rows)))
        clock = max(slots) + NS
        rows += stage_rows
    return pa.Table.from_pylist(rows, schema=SCHEMA), windows


def _request(
    generator: np.random.Generator, plan: Plan, stage: int, index: int, ready_ns: int, level: float, failed: bool
) -> dict[str, Any]:
    due_ns, sent_ns = ready_ns, ready_ns + int(generator.exponential(150_000))
    row: dict[str, Any] = {
        "stage": stage,
        "index": index,
        "warmup": False,
        "due_ns": due_ns,
        "ready_ns": ready_ns,
        "sent_ns": sent_ns,
        "asked_input_tokens": plan.input_tokens,
        "asked_output_tokens": plan.output_tokens,
        "flags": [],
        "retried": False,
        "bytes_in": 0,
    }
    if failed:
        ended = {"end_ns": sent_ns + 20_000_000, "http_status": 503, "outcome": "http_error"}
        return row | ended | {"detail": 'HTTP 503: {"error": "overloaded"}', "events": 0}
    first = plan.ttft_ms * (0.7 + 0.3 * level) * generator.lognormal(0, 0.18)
    gaps = plan.tpot_ms * (0.85 + 0.15 * level) * generator.lognormal(0, 0.12, plan.output_tokens - 1)
    offsets = np.cumsum([first, *gaps])
    stamps = (offsets * 1e6).astype(int)
    return row | {
        "connect_ns": 210_000 if index < level else None,
        "headers_ns": sent_ns + int(stamps[0]) - 900_000,
        "first_event_ns": sent_ns + int(stamps[0]) - 500_000,
        "first_token_ns": sent_ns + int(stamps[0]),
        "first_answer_ns": sent_ns + int(stamps[0]),
        "last_token_ns": sent_ns + int(stamps[-1]),
        "end_ns": sent_ns + int(stamps[-1]) + 300_000,
        "outcome": "ok",
        "http_status": 200,
        "finish_reason": "length",
        "response_model": "smollm2-135m",
        "input_tokens": plan.input_tokens,
        "cached_tokens": 0,
        "output_tokens": plan.output_tokens,
        "token_source": "usage",
        "events": plan.output_tokens,
        "event_offsets_ns": stamps.tolist(),
        "bytes_in": 180 * plan.output_tokens,
    }


def power_rows(plan: Plan, windows: Sequence[tuple[int, int]]) -> pa.Table:
    """Ten samples a second of one GPU and the CPU package (the CPU alone when modelled)."""
    devices = {"gpu0": (90.0, 180.0), "cpu-package0": (12.0, 30.0)} if plan.energy == "measured" else {"cpu": (6, 22)}
    generator = np.random.default_rng(plan.seed + 1)
    rows, energy_mj = [], dict.fromkeys(devices, 0.0)
    for t_ns in range(windows[0][0] - 3 * NS, windows[-1][1] + NS, NS // 10):
        busy = any(start <= t_ns <= end for start, end in windows)
        for device, (idle_w, busy_w) in devices.items():
            power_mw = 1000 * (busy_w if busy else idle_w) * generator.normal(1, 0.03)
            energy_mj[device] += power_mw / 10
            rows.append(
                {"t_ns": t_ns, "device": device, "power_mw": int(power_mw), "energy_mj": int(energy_mj[device])}
            )
    return pa.Table.from_pylist(rows, schema=POWER_SCHEMA)


def power_facts(plan: Plan) -> dict[str, Any] | None:
    if not plan.energy:
        note = {"code": "no_source", "text": "No power source was found: NVML and RAPL cannot be read on this machine."}
        return {"source": "none", "mark": None, "devices": [], "notes": [note], "idle_w": None, "idle_mark": None}
    devices = [{"id": "gpu0", "name": "H100 SXM", "layer": "accelerator"}]
    devices.append({"id": "cpu-package0", "name": "CPU package", "layer": "cpu"})
    if plan.energy == "modelled":
        devices = [{"id": "cpu", "name": "CPU by utilisation", "layer": "cpu"}]
    return {
        "source": "nvml" if plan.energy == "measured" else "estimate",
        "mark": plan.energy,
        "devices": devices,
        "notes": [],
        "idle_w": 102.0 if plan.energy == "measured" else 6.0,
        "idle_mark": plan.energy,
    }


def stage_summary(plan: Plan, index: int, rows: pa.Table, window: tuple[int, int]) -> dict[str, Any]:
    level, seconds = plan.levels[index], (window[1] - window[0]) / NS
    limited, ok = level in plan.client_limited, plan.requests - plan.failures
    failures = {"http_error": {"count": plan.failures, "example": 'HTTP 503: {"error": "overloaded"}'}}
    energy = _ledger(plan, level, seconds)
    lag = {"code": "lag", "text": "The client sent 4.1 ms late at p99: more than a tenth of TTFT."}
    return {
        "index": index,
        "load": {"kind": "concurrency", "value": level},
        "verdict": "client_limited" if limited else "ok",
        "reasons": [lag] if limited else [],
        "planned": plan.requests,
        "ok": ok,
        "failed": plan.failures,
        "cancelled": 0,
        "not_sent": 0,
        "failures": failures if plan.failures else {},
        "flags": {},
        "window": {"kind": "steady", "start_ns": window[0], "end_ns": window[1], "seconds": seconds},
        "metrics": _metrics(plan, index, rows, seconds, energy),
        "energy": energy,
        "cost": {"usd_per_hour": plan.usd_per_hour, "basis": "rent", "source": "rent, list price"}
        if plan.usd_per_hour
        else None,
    }


def _metrics(plan: Plan, index: int, rows: pa.Table, seconds: float, energy: dict[str, Any] | None) -> dict[str, Any]:
    samples = stage_samples(rows, index)
    ok = samples["ttft_ms"].size
    metrics = {key: _distribution(values) for key, values in samples.items() if values.size}
    metrics["itl_ms"] = metrics.get("event_gap_ms", _rate(None, 0))
    metrics["input_tokens"] = _distribution(np.full(ok, float(plan.input_tokens)))
    metrics["output_tokens"] = _distribution(np.full(ok, float(plan.output_tokens)))
    per_s, out_per_s = ok / seconds, ok * plan.output_tokens / seconds
    total_per_s = out_per_s + ok * plan.input_tokens / seconds
    rates: dict[str, float | None] = {
        "request_per_s": per_s,
        "output_tokens_per_s": out_per_s,
        "input_tokens_per_s": total_per_s - out_per_s,
        "total_tokens_per_s": total_per_s,
        "success_share": 100 * ok / plan.requests,
        "achieved_concurrency": float(plan.levels[index]) * 0.99,
    }
    if plan.slo.bounds():
        good = np.ones(ok, bool)
        for key, bound in plan.slo.bounds().items():
            good &= samples[key] <= bound
        rates |= {"goodput_per_s": good.sum() / seconds, "goodput_share": 100 * good.sum() / plan.requests}
    if energy and ok:
        rates |= {
            "power_w": energy["it_j"] / seconds,
            "wh_per_query": energy["it_j"] / 3600 / ok,
            "j_per_output_token": energy["it_j"] / (ok * plan.output_tokens),
            "j_per_total_token": energy["it_j"] / (total_per_s * seconds),
        }
    if plan.usd_per_hour and ok:
        rates |= {
            "usd_per_mtok_output": plan.usd_per_hour / (out_per_s * 0.0036),
            "usd_per_mtok_total": plan.usd_per_hour / (total_per_s * 0.0036),
            "usd_per_query": plan.usd_per_hour * seconds / 3600 / ok,
        }
    energy_keys = ("power_w", "wh_per_query", "j_per_output_token", "j_per_total_token")
    for key, value in rates.items():
        metrics[key] = _rate(value, ok, plan.energy if key in energy_keys else "measured")
    return metrics


def _distribution(values: np.ndarray) -> dict[str, Any]:
    mean, n = float(values.mean()), values.size
    half = 1.96 * float(values.std()) / n**0.5
    found: dict[str, Any] = {"mean": mean, "low": mean - half, "high": mean + half, "n": n, "mark": "measured"}
    for name in ("p50", "p90", "p95", "p99"):
        found[name] = float(np.percentile(values, float(name[1:]))) if n >= PERCENTILE_MIN_N[name] else None
    return found | {"min": float(values.min()), "max": float(values.max())}


def _rate(value: float | None, n: int, mark: str = "measured") -> dict[str, Any]:
    empty = dict.fromkeys(("p50", "p90", "p95", "p99", "min", "max"))
    return {"mean": None if value is None else float(value), "low": None, "high": None, **empty, "n": n, "mark": mark}


def _ledger(plan: Plan, level: float, seconds: float) -> dict[str, Any] | None:
    if not plan.energy:
        return None
    measured = plan.energy == "measured"
    parts = [("accelerator", "Accelerators", 180.0, "nvml"), ("cpu", "CPU package", 30.0, "rapl")]
    layers = [
        {
            "layer": layer,
            "label": label,
            "energy_j": watts * seconds,
            "low_j": watts * seconds * 0.95,
            "high_j": watts * seconds * 1.05,
            "mark": plan.energy,
            "method": "counter" if measured else "model",
            "source": source if measured else "estimate",
            "note": "" if measured else "CPU power from utilisation: 6 W idle, 22 W busy.",
        }
        for layer, label, watts, source in (parts if measured else parts[1:])
    ]
    it_j = sum(layer["energy_j"] for layer in layers)
    gpu_j = 180.0 * seconds
    instrument = {"device": "gpu0", "counter_j": gpu_j, "integral_j": gpu_j * 1.01, "ratio": 0.99, "verdict": "agree"}
    return {
        "window_s": seconds,
        "short": seconds < 30,
        "layers": layers,
        "narrow_j": gpu_j if measured else None,
        "it_j": it_j,
        "full_j": None,
        "boundary": "accelerator+cpu" if measured else "cpu",
        "mark": plan.energy,
        "instruments": [instrument] if measured else [],
        "reasons": [{"code": "no_pue", "text": "The site has no PUE, so the full boundary is unknown."}],
    }


def progress_series(plan: Plan, fraction: float) -> list[dict[str, Any]]:
    planned, per_stage = plan.requests * len(plan.levels), 15
    total = per_stage * len(plan.levels)
    points = []
    for t in range(1, max(2, round(total * fraction)) + 1):
        stage = min(len(plan.levels) - 1, (t - 1) // per_stage)
        level, sent = plan.levels[stage], round(planned * t / total)
        ttft = plan.ttft_ms * (0.7 + 0.3 * level)
        speed = level * 1000 * plan.output_tokens / (ttft + plan.tpot_ms * (0.85 + 0.15 * level) * plan.output_tokens)
        points.append(
            {
                "t_s": float(t),
                "phase": "measure",
                "stage": stage,
                "stages": len(plan.levels),
                "load": {"kind": "concurrency", "value": level},
                "planned": planned,
                "sent": sent,
                "ok": max(0, sent - int(level)),
                "failed": 0,
                "in_flight": int(level),
                "fraction": t / total,
                "eta_s": float(total - t),
                "output_tokens_per_s": speed * (1 + 0.05 * np.sin(t)),
                "ttft_ms": ttft * (1 + 0.08 * np.cos(t)),
                "power_w": 200.0 if plan.energy == "measured" else None,
            }
        )
    return points
