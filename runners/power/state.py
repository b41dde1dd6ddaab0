"""In which state a device was during a window: its temperature, clocks, limit, and what held it back. Pure."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: NVML's bits (nvmlClocksEventReasons) by what they mean for a measurement.
_HELD_BACK = {"power": 0x4, "thermal": 0x20 | 0x40, "hardware": 0x8 | 0x80}
#: Running counters of the time for which power and heat held the clocks back; exact, where the card has them.
_COUNTERS = {"power": "power_throttled_ms", "thermal": "thermal_throttled_ms"}
_MEASURED = ("temperature_c", "clock_mhz", "memory_clock_mhz", "utilisation_pct")
#: Limits within this factor are one limit.
_SAME_LIMIT = 1.01


def device_state(rows: pa.Table, start_ns: int, end_ns: int) -> dict[str, Any]:
    """The "state" of docs/result-files.md for one device's rows; each value is None where it was not told."""
    inside = rows.filter(pc.and_(pc.greater_equal(rows["t_ns"], start_ns), pc.less_equal(rows["t_ns"], end_ns)))
    limits = _values(inside, "power_limit_mw")
    others = _values(inside, "other_processes")
    return {
        **{column: _spread(inside, column) for column in _MEASURED},
        "power_limit_w": _spread_of(limits / 1e3),
        "held_back_share": {reason: _held_back(inside, reason) for reason in _HELD_BACK},
        "other_processes": int(others.max()) if len(others) else None,
        "listed_gpus": _listed(rows, end_ns),
    }


def state_fault(state: dict[str, Any]) -> str:
    """The code of what makes a figure of the window worthless; empty when nothing does."""
    limit = state["power_limit_w"]
    if limit and limit["max"] > _SAME_LIMIT * limit["min"]:
        return "power_limit_changed"
    if state["listed_gpus"] and state["listed_gpus"]["min"] != state["listed_gpus"]["max"]:
        return "device_count_changed"
    return "contaminated" if state["other_processes"] else ""


def state_flags(state: dict[str, Any]) -> list[str]:
    """Codes of what must be known beside a figure that stands."""
    return [f"throttled_{reason}" for reason, share in state["held_back_share"].items() if share]


def _listed(rows: pa.Table, end_ns: int) -> dict[str, int] | None:
    """Fewest and most GPUs that the driver listed from the first reading to the window's end: what was found out of
    the boards at the start holds no longer when another number is listed.
    """
    counts = rows.filter(pc.less_equal(rows["t_ns"], end_ns))["listed_gpus"].drop_null().to_pylist()
    return {"min": min(counts), "max": max(counts)} if counts else None


def _values(rows: pa.Table, column: str) -> Any:
    return rows[column].drop_null().to_numpy().astype(np.float64)


def _spread(rows: pa.Table, column: str) -> dict[str, float] | None:
    return _spread_of(_values(rows, column))


def _spread_of(values: Any) -> dict[str, float] | None:
    if not len(values):
        return None
    return {"min": float(values.min()), "mean": float(values.mean()), "max": float(values.max())}


def _held_back(rows: pa.Table, reason: str) -> float | None:
    """Share of the window for which the clocks were held back: from a running counter, else from looking once a second.

    A counter that its driver lets stand still is no evidence against what was seen.
    """
    seen = _values(rows, "throttle_reasons").astype(np.int64)
    share = float(np.mean((seen & _HELD_BACK[reason]) != 0)) if len(seen) else None
    column = _COUNTERS.get(reason)
    known = rows.filter(pc.is_valid(rows[column])) if column else rows.slice(0, 0)
    if known.num_rows < 2:
        return share
    span_ms = (known["t_ns"][-1].as_py() - known["t_ns"][0].as_py()) / 1e6
    moved_ms = known[column][-1].as_py() - known[column][0].as_py()
    return min(1.0, moved_ms / span_ms) if moved_ms > 0 else share
