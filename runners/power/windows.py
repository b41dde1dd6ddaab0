"""The energy of a query over three spans of time: steady serving, everything, and serving with idle time between."""

from dataclasses import dataclass
from typing import Any

from runners.metrics import Mark
from runners.power.devices import Layer, weakest

_BESIDE = ("low", "high", "full_wh_per_query")


def bounds_j(ledger: dict[str, Any]) -> tuple[float | None, float | None]:
    """Between these the IT energy of a ledger lies; None where a layer has no band."""
    layers = [layer for layer in ledger["layers"] if layer["layer"] in tuple(Layer) and not layer.get("within")]
    lows, highs = [layer["low_j"] for layer in layers], [layer["high_j"] for layer in layers]
    return sum(lows) if None not in lows else None, sum(highs) if None not in highs else None


def window_energy(kind: str, ledger: dict[str, Any], queries: float) -> dict[str, Any]:
    """What a ledger of a window says of one query (Wh), ready for JSON. ``queries``: ok requests that it served."""
    it_j = ledger["it_j"]
    low_j, high_j = bounds_j(ledger) if it_j is not None else (None, None)

    def wh(joules: float | None) -> float | None:
        return joules / 3600 / queries if joules is not None and queries > 0 else None

    return {
        "window": kind,
        "seconds": ledger["window_s"],
        "queries": queries,
        "narrow_j": ledger["narrow_j"],
        "it_j": it_j,
        "full_j": ledger["full_j"],
        "wh_per_query": wh(it_j),
        "low": wh(low_j),
        "high": wh(high_j),
        "full_wh_per_query": wh(ledger["full_j"]),
        "mark": ledger["mark"],
        "reasons": ledger["reasons"],
    }


def duty_cycle_wh(active_wh_per_query: float, idle_w: float, idle_hours: float, queries: float) -> float:
    """Energy per query when the machine also stands idle between: active + idle power x idle time / queries."""
    return active_wh_per_query + idle_w * idle_hours / queries


@dataclass(frozen=True)
class Duty:
    """An hour of ``queries_per_hour``: ``busy_share`` of it serving as in the steady window, the rest idle (Wh, W)."""

    queries_per_hour: float
    busy_share: float
    wh_per_query: float
    idle_wh_per_query: float
    low: float | None
    high: float | None
    full_wh_per_query: float | None
    mean_power_w: float
    mark: Mark


def duty_cycle(
    steady: dict[str, Any], queries_per_hour: float, idle_w: float | None, idle_mark: str | None
) -> Duty | str:
    """From ``window_energy`` of the steady window; the words why not when something is unknown.

    The band of the active figure holds for the idle part as well: the same instruments read both.
    """
    active, seconds = steady["wh_per_query"], steady["seconds"]
    if active is None:
        return "the energy of the steady window is unknown"
    if idle_w is None:
        return "idle power was not read: give the benchmark a few seconds for it"
    busy = queries_per_hour / (steady["queries"] / seconds * 3600)
    if busy > 1:
        return (
            f"{queries_per_hour:g} queries an hour are more than were served here: "
            f"{steady['queries'] / seconds * 3600:.0f} an hour"
        )
    wh = duty_cycle_wh(active, idle_w, 1 - busy, queries_per_hour)
    marks = [Mark(mark) for mark in (steady["mark"], idle_mark) if mark]
    low, high, full = (steady[name] / active if active and steady[name] is not None else None for name in _BESIDE)
    return Duty(
        queries_per_hour,
        busy,
        wh,
        wh - active,
        None if low is None else wh * low,
        None if high is None else wh * high,
        None if full is None else wh * full,
        wh * queries_per_hour,
        weakest(marks) or Mark.ASSUMED,
    )
