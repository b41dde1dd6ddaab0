"""The tables of the run page, as plain rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from observatory.compare.stages import Number
from observatory.pages.results import RunResults, StageResults, interval_text, why_missing
from observatory.pages.templatetags.numbers import NO_INTERVAL
from observatory.runs.models import Run
from runners.metrics import BY_KEY, PERCENTILE_MIN_N, Mark, Metric

STAGE_METRICS = (
    ("ttft_ms", "p50"),
    ("ttft_ms", "p99"),
    ("tpot_ms", "p50"),
    ("e2e_ms", "p50"),
    ("output_tokens_per_s", "mean"),
    ("wh_per_query", "mean"),
    ("usd_per_mtok_output", "mean"),
)


@dataclass(frozen=True)
class Cell:
    """A number with what stands beside it; ``reason`` says why it is missing."""

    metric: Metric
    number: Number | None
    interval: str = ""
    reason: str = ""
    statistic: str = "mean"

    @property
    def note(self) -> str:
        return self.interval or NO_INTERVAL

    @property
    def label(self) -> str:
        return self.metric.label if self.statistic == "mean" else f"{self.metric.label} {self.statistic}"


def stage_rows(results: RunResults) -> list[tuple[StageResults, list[Cell]]]:
    return [(stage, [cell(results, stage, key, p) for key, p in STAGE_METRICS]) for stage in results.stages]


def cell(results: RunResults, stage: StageResults, key: str, statistic: str = "mean") -> Cell:
    metric, number = BY_KEY[key], stage.numbers.get((key, statistic))
    if number is None:
        return Cell(metric, None, "", why_missing(results, stage, metric, statistic), statistic)
    return Cell(metric, number, interval_text(stage.interval(key, statistic), metric.unit), "", statistic)


@dataclass(frozen=True)
class PercentileRow:
    """``cells``: p50 to p99 in order; a number, or the words that stand in its place."""

    stage: StageResults
    n: int | None
    mean: float | None
    interval: str
    cells: list[tuple[Number | None, str]]
    extremes: tuple[float | None, float | None]


def percentiles(results: RunResults, metric: str) -> list[PercentileRow]:
    return [_percentile_row(stage, metric) for stage in results.stages]


def _percentile_row(stage: StageResults, metric: str) -> PercentileRow:
    mean = stage.numbers.get((metric, "mean"))
    n = mean.n if mean else None
    cells = []
    for statistic in ("p50", "p90", "p95", "p99"):
        number = stage.numbers.get((metric, statistic))
        few = number is None and n is not None and n < PERCENTILE_MIN_N[statistic]
        cells.append((number, f"too few (n={n})" if few else ""))
    interval = interval_text(stage.interval(metric, "mean"), BY_KEY[metric].unit)
    extremes = stage.value(metric, "min"), stage.value(metric, "max")
    return PercentileRow(stage, n, stage.value(metric), interval, cells, extremes)


@dataclass(frozen=True)
class Boundary:
    """A sum of the ledger; ``wh_per_query`` and ``power_w`` are for the requests and the time of its window."""

    name: str
    holds: str
    energy_j: float | None
    power_w: float | None
    wh_per_query: float | None
    j_per_output_token: float | None
    reason: str


def energy(results: RunResults, stage: StageResults) -> dict[str, Any]:
    """Boundaries side by side, and the metrics of the IT boundary with their intervals."""
    keys = ("wh_per_query", "wh_per_query_median", "j_per_output_token", "j_per_total_token", "power_w")
    ledger = stage.stage.energy
    return {
        "boundaries": _boundaries(stage, ledger) if ledger else [],
        "layers": [_layer(layer) for layer in ledger["layers"]] if ledger else [],
        "instruments": _instruments(results, ledger) if ledger else [],
        "cells": [cell(results, stage, key) for key in keys],
        "facts": results.summary.get("power") or {},
        "states": _states(results, ledger) if ledger else [],
    }


def _states(results: RunResults, ledger: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each GPU in the window: temperature, clocks, limit, and what held the clocks back."""
    return [
        {
            **state,
            "name": results.devices.get(state["device"], state["device"]),
            "held_back": [
                (reason, 100 * share) for reason, share in (state.get("held_back_share") or {}).items() if share
            ],
            "watched": any(share is not None for share in (state.get("held_back_share") or {}).values()),
        }
        for state in ledger.get("states") or []
    ]


def _instruments(results: RunResults, ledger: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What each device's own energy says beside its power; that of a model is called so, never a counter."""
    rows = []
    for instrument in ledger.get("instruments") or []:
        modelled = instrument["device"] in results.modelled_devices
        kind = "model" if modelled else "power readings" if instrument["counter_j"] is None else "energy counter"
        rows.append({**instrument, "kind": kind, "mark": Mark.MODELLED if modelled else Mark.MEASURED})
    return rows


def _layer(layer: Mapping[str, Any]) -> dict[str, Any]:
    low, high = layer.get("low_j"), layer.get("high_j")
    return {**layer, "interval": interval_text((low, high), "J") if low is not None and high is not None else ""}


def _boundaries(stage: StageResults, ledger: Mapping[str, Any]) -> list[Boundary]:
    it_j, parts = ledger.get("it_j"), str(ledger.get("boundary") or "").replace("+", " + ")
    kinds = (
        ("narrow", "active accelerators only", "narrow_j", "no accelerator was measured"),
        ("IT", parts or "accelerators and host", "it_j", "no layer was measured"),
        ("full", f"({parts}) × PUE" if parts else "IT × PUE", "full_j", "the PUE of the site is unknown"),
    )
    made = []
    for name, holds, key, reason in kinds:
        share = ledger[key] / it_j if ledger.get(key) is not None and it_j else None
        scaled = {
            metric: None if share is None or stage.value(metric) is None else share * (stage.value(metric) or 0.0)
            for metric in ("power_w", "wh_per_query", "j_per_output_token")
        }
        made.append(Boundary(name, holds, ledger.get(key), reason=reason, **scaled))
    return made


@dataclass(frozen=True)
class ClientRow:
    """How the load generator fared at one load: its own error against a server of known timing, and its effort."""

    label: str
    client: Mapping[str, Any]
    ttft_error_ms: Mapping[str, Any]
    event_error_ms: Mapping[str, Any]

    @property
    def ttft_words(self) -> str:
        """In place of a median that is missing."""
        n = self.ttft_error_ms.get("n")
        return "not compared" if n is None else f"too few (n={n})"

    @property
    def busy_percent(self) -> float | None:
        share = self.client.get("busy_share")
        return None if share is None else 100 * share


def clients(results: RunResults) -> list[ClientRow]:
    """A row a stage whose load generator was watched, then one for each load process where there were several."""
    summary: Mapping[str, Any] = results.run.summary or {}
    kept = {stage["index"]: stage for stage in summary.get("stages", [])}
    hosts = {shard["index"]: shard["host"] for shard in summary.get("shards") or []}
    rows = []
    for stage in results.stages:
        told = kept.get(stage.index, {})
        rows += _client_rows(stage.label, told.get("client"))
        for shard in told.get("shards") or []:
            verdict = "" if shard["verdict"] == "ok" else f" ({shard['verdict']})"
            label = f"{stage.label}, {shard['index']} on {hosts.get(shard['index'], '')}{verdict}"
            rows += _client_rows(label, shard["client"])
    return rows


def _client_rows(label: str, client: Mapping[str, Any] | None) -> list[ClientRow]:
    if not client:
        return []
    found = client.get("calibration") or {}
    return [ClientRow(label, client, found.get("ttft_error_ms") or {}, found.get("event_error_ms") or {})]


def _load_hosts(summary: Mapping[str, Any]) -> dict[str, str]:
    """Each load process with its clock against the first one's, where there were several."""
    return {
        f"{shard['index']} on {shard['host']}": (
            (f"clock {shard['offset_ns'] / 1e6:+.3f} ± {shard['bound_ns'] / 1e6:.3f} ms" if shard["bound_ns"] else "")
            + (f" {shard['fault']['text']}" if shard["fault"] else "")
        ).strip()
        or "came to its end"
        for shard in summary.get("shards") or []
    }


_POWER_FACTS = (
    "source", "mark", "idle_w", "idle_mark", "idle_after_w", "observer_w", "observer_bounds_w",
    "start_temperature_c", "start_waited_s", "sampler_cpu_share",
)  # fmt: skip


def setup(run: Run) -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything needed to repeat the run, in named groups of (field, value)."""
    summary: Mapping[str, Any] = run.summary or {}
    spec = {name: value for name, value in run.spec.items() if name != "target"}
    power = summary.get("power") or {}
    groups = (
        ("Target", {**run.spec.get("target", {}), **(summary.get("target") or {})}),
        ("What was asked", spec),
        ("Deployment, as it was", run.setup),
        ("Load machine", summary.get("environment") or {}),
        ("Load processes", _load_hosts(summary)),
        ("Instrument", {name: summary.get(name) for name in ("runner_version", "definitions_version", "clock")}),
        ("Power", {name: power.get(name) for name in _POWER_FACTS}),
        ("Run", {"trigger": run.trigger, "worker": run.lease_owner, "spec_sha256": run.spec_sha256}),
    )
    return [(name, rows) for name, fields in groups if (rows := list(_fields(fields)))]


def _fields(group: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested fields by dotted name, those of a list by number; what is not set is left out."""
    for name, value in group.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{prefix}{name}.")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            yield from _fields({str(number): item for number, item in enumerate(value, 1)}, f"{prefix}{name}.")
        elif name == "engine_version" and "unknown" in str(value):
            yield f"{prefix}{name}", "not told"
        elif value not in (None, "", []):
            items = value if isinstance(value, list) else [value]
            yield f"{prefix}{name}", ", ".join(_words(item) for item in items)


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
