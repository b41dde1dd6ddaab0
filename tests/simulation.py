"""A small simulation of a server whose times grow with concurrency: the same plan gives the same rows."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from runners.energies import add_energy
from runners.load.judgement import Client
from runners.load.plan import fixed_stages
from runners.load.records import SCHEMA
from runners.load.summary import summarise_stage
from runners.metrics import Mark
from runners.power.devices import Device, Layer
from runners.power.samples import SCHEMA as POWER_SCHEMA
from runners.server.samples import SCHEMA as SERVER_SCHEMA
from runners.server.summary import ServerSide
from runners.spec import Account, Load, RunSpec, Slo, Target, Workload

NS = 1_000_000_000
MONOTONIC_START_NS = 5_000 * NS


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
    pools: tuple[str, ...] = ()  # a GPU each
    usd_per_hour: float | None = 2.4
    pue: float | None = None
    slo: Slo = field(default_factory=Slo)
    client_limited: Sequence[float] = ()
    seed: int = 0

    def spec(self, url: str = "http://127.0.0.1:8080", model: str = "smollm2-135m") -> RunSpec:
        return RunSpec(
            target=Target(url=url, model=model),
            workload=Workload(input_tokens=self.input_tokens, output_tokens=self.output_tokens),
            load=Load(levels=tuple(float(level) for level in self.levels), requests=self.requests),
            slo=self.slo,
            account=Account(
                usd_per_hour=self.usd_per_hour,
                price_source="rent, list price" if self.usd_per_hour else "",
                pue=self.pue,
            ),
            salt="a1b2c3",
        )


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
    watts = {"gpu0": (90.0, 180.0), "gpu1": (60.0, 300.0), "cpu-package0": (12.0, 30.0), "cpu": (6.0, 22.0)}
    generator = np.random.default_rng(plan.seed + 1)
    rows, energy_mj = [], dict.fromkeys(watts, 0.0)
    for t_ns in range(windows[0][0] - 3 * NS, windows[-1][1] + NS, NS // 10):
        busy = any(start <= t_ns <= end for start, end in windows)
        for device in _devices(plan):
            power_mw = 1000 * watts[device.id][busy] * generator.normal(1, 0.03)
            energy_mj[device.id] += power_mw / 10
            counter = energy_mj[device.id] if device.counter else None
            row = {"t_ns": t_ns, "device": device.id, "layer": device.layer, "energy_mj": counter}
            gpu = device.layer is Layer.ACCELERATOR
            instant_mw = power_mw * generator.normal(1, 0.05) if gpu else None
            row |= {"power_mw": None if device.id == "cpu-package0" else power_mw, "power_instant_mw": instant_mw}
            state = {"temperature_c": 61.0, "clock_mhz": 1830.0, "power_limit_mw": 350_000.0, "throttle_reasons": 0}
            rows.append(row | (state if gpu else {}))
    return pa.Table.from_pylist(rows, schema=POWER_SCHEMA)


def _devices(plan: Plan) -> list[Device]:
    if plan.energy == "modelled":
        reading = "CPU utilisation between 6 W idle and 22 W busy"
        model = {"update_ms": 100.0, "gain_low": 0.5, "gain_high": 1.5, "gain_source": "a model, not a meter"}
        return [Device("cpu", "CPU", Layer.CPU, "estimate", Mark.MODELLED, reading=reading, **model)]  # fmt: skip
    meter = {"update_ms": 100.0, "gain_low": 0.95, "gain_high": 1.05, "gain_source": "data sheet: 5 %"}
    gpus = [
        Device(f"gpu{number}", "NVIDIA H100", Layer.ACCELERATOR, "nvml", Mark.MEASURED, pool=pool,
               reading="energy counter of NVML", power_column="power_mw", power_window_ms=25.0, **meter)
        for number, pool in enumerate(plan.pools or ("",))
    ]  # fmt: skip
    cpu = Device("cpu-package0", "CPU package 0", Layer.CPU, "rapl", Mark.MEASURED, reading="RAPL package", **meter)
    return [*gpus, cpu] if plan.energy else []


def power_facts(plan: Plan) -> dict[str, Any]:
    """What the sampler says of itself."""
    none = {"code": "no_source", "text": "No power source was found: NVML and RAPL cannot be read on this machine."}
    source = {"measured": "nvml+rapl", "modelled": "estimate", "": "none"}[plan.energy]
    return {
        "source": source,
        "mark": plan.energy or None,
        "devices": [device.to_json() for device in _devices(plan)],
        "notes": [] if plan.energy else [none],
        "idle_w": {"measured": 102.0, "modelled": 6.0, "": None}[plan.energy],
        "idle_mark": plan.energy or None,
        "idle_after_w": {"measured": 104.0, "modelled": 6.0, "": None}[plan.energy],
        "observer_w": 1.5 if plan.energy == "measured" else None,
        "observer_bounds_w": (0.9, 2.1) if plan.energy == "measured" else None,
        "start_temperature_c": 48.0 if plan.energy == "measured" else None,
        "start_waited_s": 12.0 if plan.energy == "measured" else None,
        "idle_windows_ns": {"before": [MONOTONIC_START_NS - 5 * NS // 2, MONOTONIC_START_NS - NS // 4]},
    }


def server_rows(plan: Plan, windows: Sequence[tuple[int, int]]) -> pa.Table:
    """A reading a second and one on each side of each stage: a vLLM that counts just what was asked of it."""
    per_stage = {"prompt_tokens": plan.input_tokens, "generated_tokens": plan.output_tokens, "cached_tokens": 0}
    rows, served = [], 0.0
    for (start, end), level in zip(windows, plan.levels, strict=True):
        times = [start - NS // 100, *range(start + NS // 2, end, NS), end + NS // 100]
        for t_ns in times:
            inside = start <= t_ns <= end
            done = served + (plan.requests - plan.failures) * min(1.0, max(0.0, (t_ns - start) / (end - start)))
            found = {key: done * each for key, each in per_stage.items()}
            found |= {"requests_running": level * inside, "requests_queued": 0.0, "kv_use": 0.04 * level * inside}
            rows += [{"t_ns": t_ns, "metric": key, "labels": "", "value": value} for key, value in found.items()]
        served += plan.requests - plan.failures
    return pa.Table.from_pylist(rows, schema=SERVER_SCHEMA)


def server_facts(plan: Plan, windows: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """What the scraper says of itself."""
    marks = [windows[0][0] - NS // 100, *(end + NS // 100 for _, end in windows)]
    return {
        "engine": "vLLM",
        "url": "http://127.0.0.1:8080/metrics",
        "scrapes": 30,
        "failed": 0,
        "slowest_ms": 4.2,
        "keys": ["requests_running", "requests_queued", "kv_use", "prompt_tokens", "cached_tokens", "generated_tokens"],
        "notes": [],
        "marks_ns": marks,
    }


def stage_summaries(
    plan: Plan, spec: RunSpec, rows: pa.Table, power: pa.Table, server: ServerSide
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The stages as the instrument itself sums them up, and what the summary says of the energy of the run."""
    facts = power_facts(plan)

    busy = {level: 0.97 if level in plan.client_limited else 0.2 for level in plan.levels}
    stages = [
        summarise_stage(
            rows,
            stage,
            spec,
            client=Client(busy_share=busy[stage.level]),
            server_of=server.of_stage,
        )
        for stage in fixed_stages(spec)
    ]

    return stages, add_energy(stages, rows, power, facts, spec)


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
