"""The Energy tab: what a query took over three spans of time, who sampled, and what is drawn of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import floor, log
from typing import Any

from observatory.pages import result_tables, run_carbon, run_pools
from observatory.pages.charts import Chart
from observatory.pages.power_strip import Span, power_strip
from observatory.pages.results import RunResults, StageResults, interval_text
from runners.power.windows import Duty, duty_cycle

_MOST_PER_HOUR = 1e9


@dataclass(frozen=True)
class WindowRow:
    """Energy of a query over one span of time (Wh), IT and full; None with ``reason`` where unknown."""

    name: str
    holds: str
    seconds: float | None
    queries: float | None
    wh_per_query: float | None
    low: float | None
    high: float | None
    full_wh_per_query: float | None
    mark: str | None
    reason: str = ""


def context(results: RunResults, stage: StageResults, query: Mapping[str, str]) -> dict[str, Any]:
    """What the Energy tab shows."""
    traffic = _traffic(results, query)
    served = stage.value("request_per_s")
    most = None if served is None else floor(served * 3600)
    power = results.summary.get("power") or {}
    carbon = run_carbon.context(results, stage, query.get("pricing", ""))
    return {
        "pools": run_pools.energies(carbon["factors"], stage),
        "ledger": stage.stage.energy,
        "energy": result_tables.energy(results, stage),
        "windows": windows(results, stage, traffic),
        "traffic": traffic,
        "most_traffic": most,
        "slider_place": _place(traffic, most),
        "sampled_by": [_with_bound(part) for part in power.get("sampled_by") or []],
        "fit": fit(results),
        "client_energy": _of_stage(results, stage).get("client_energy"),
        **carbon,
    }


#: Terms of the fit in the words of people, with the unit of each.
_TERMS = {
    "prefill": ("A prompt token, not cached", "J/tok"),
    "decode": ("An output token", "J/tok"),
    "kv_reads": ("A million tokens of context read", "J"),
    "prefill+decode": ("A token, prompt or output", "J/tok"),
}


@dataclass(frozen=True)
class TermRow:
    name: str
    joules: float
    unit: str
    interval: str


def fit(results: RunResults) -> Mapping[str, Any] | None:
    """How the run's energy divides among its tokens; None for a run that cannot tell."""
    told = results.summary.get("attribution")
    if not told:
        return None
    rows = []
    for term in told["terms"]:
        name, unit = _TERMS[term["of"]]
        rows.append(TermRow(name, term["joules"], unit, interval_text((term["low"], term["high"]), unit)))
    return {**told, "terms": rows, "idle_mark": "measured" if told["idle_measured"] else "modelled"}


def _place(traffic: float | None, most: int | None) -> int:
    """Of the slider, whose scale is logarithmic from 1 to ``most`` in 1000 steps."""
    if traffic is None or not most or most <= 1:
        return 0
    return round(1000 * log(min(max(traffic, 1.0), most)) / log(most))


def _with_bound(part: Mapping[str, Any]) -> dict[str, Any]:
    bound_ns = part["bound_ns"]
    return {**part, "bound_ms": None if bound_ns is None else bound_ns / 1e6}


def _traffic(results: RunResults, query: Mapping[str, str]) -> float | None:
    """Queries an hour: as asked, else as stated of the deployment when the run was queued."""
    try:
        asked = float(query.get("traffic", ""))
    except ValueError:
        stated: float | None = (results.run.spec.get("account") or {}).get("queries_per_hour")
        return stated
    return asked if 0 < asked <= _MOST_PER_HOUR else None


def _of_stage(results: RunResults, stage: StageResults) -> Mapping[str, Any]:
    stages: list[Mapping[str, Any]] = results.summary.get("stages") or []
    return next((item for item in stages if item["index"] == stage.index), {})


def windows(results: RunResults, stage: StageResults, traffic: float | None) -> list[WindowRow]:
    """Steady, the whole stage, the whole run, and an hour at the stated traffic."""
    stored = _of_stage(results, stage)
    steady = stored.get("energy_steady")
    if steady is None:
        return []
    rows = [
        _row("Steady window", "under the asked load", steady),
        _row("Whole stage", "from its first send to its last end", stored["energy_whole"]),
        _row("Whole run", "all stages, warm-up and pauses included", results.summary.get("energy")),
    ]
    return [*rows, _duty_row(steady, results.summary.get("power") or {}, traffic)]


def _row(name: str, holds: str, stored: Mapping[str, Any] | None) -> WindowRow:
    if stored is None:
        return WindowRow(name, holds, None, None, None, None, None, None, None, "not kept")
    reasons = "; ".join(reason["text"] for reason in stored["reasons"])
    known = {key: stored[key] for key in ("wh_per_query", "low", "high", "full_wh_per_query", "mark")}
    missing = "" if stored["wh_per_query"] is not None else reasons or "no request was served"
    return WindowRow(name, holds, stored["seconds"], stored["queries"], reason=missing, **known)


def _duty_row(steady: Mapping[str, Any], power: Mapping[str, Any], traffic: float | None) -> WindowRow:
    name, holds = "At the stated traffic", "an hour of it, idle time between"
    if traffic is None:
        duty: Duty | str = "state the traffic above"
    else:
        duty = duty_cycle(dict(steady), traffic, power.get("idle_w"), power.get("idle_mark"))
    if isinstance(duty, str):
        return WindowRow(name, holds, None, None, None, None, None, None, None, duty)
    holds = f"{duty.busy_share:.1%} of the hour busy, {duty.mean_power_w:.3g} W on average"
    return WindowRow(
        name, holds, 3600, traffic, duty.wh_per_query, duty.low, duty.high, duty.full_wh_per_query, duty.mark
    )


def strip(results: RunResults, stage: StageResults) -> Chart | None:
    """Every instrument over the whole run."""
    return power_strip(
        results.rows, stage.index, results.power, results.devices, results.modelled_devices, _spans(results)
    )


def _spans(results: RunResults) -> list[Span]:
    """Idle readings and the windows of all stages, in order."""
    idle = (results.summary.get("power") or {}).get("idle_windows_ns") or {}
    found = [Span(f"idle {name}", "idle", *idle[name]) for name in ("before", "after") if idle.get(name)]
    for stage in results.stages:
        window = _of_stage(results, stage).get("window")
        if window:
            found.append(Span(stage.label, "window", window["start_ns"], window["end_ns"]))
    return sorted(found, key=lambda span: span.start_ns)
