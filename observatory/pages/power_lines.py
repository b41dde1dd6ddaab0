"""Samples of power as lines over time, one for each instrument that a device has."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from observatory.compare.stages import FloatArray
from observatory.pages.charts import Trace, colour, plain, shown

_POINTS = 500
_NS = 1e9
_EDGE_S = 0.5
_HOVER = "%{customdata}<extra></extra>"


def seconds_since(column: Any, start_ns: int) -> FloatArray:
    return np.asarray(pc.cast(pc.subtract(column, start_ns), pa.float64()).to_numpy(), dtype=np.float64) / _NS


def power_lines(
    power: pa.Table,
    start_ns: int,
    span_s: tuple[float, float],
    devices: Mapping[str, str],
    modelled: Collection[str] = (),
    yaxis: str = "y",
) -> list[Trace]:
    """Of each device the mean field, the instant field where there is one (thin), and what its energy counter tells
    (dotted). A model has neither (dashed). ``devices``: names by id; ``span_s``: seconds since ``start_ns``.
    """
    traces: list[Trace] = []
    for index, device in enumerate(sorted(pc.unique(power["device"]).to_pylist())):
        rows = power.filter(pc.equal(power["device"], device)).sort_by("t_ns")
        at = seconds_since(rows["t_ns"], start_ns)
        inside = (at >= span_s[0] - _EDGE_S) & (at <= span_s[1] + _EDGE_S)
        name, paint = devices.get(device, device), colour(4 + index)
        mean, instant, counter = (_column(rows, column)[inside] for column in _COLUMNS)
        at = at[inside]
        if device in modelled:
            traces += _line(at, mean, f"{name}, model", paint, yaxis, dash="dash")
            continue
        traces += _line(at, mean, name, paint, yaxis)
        traces += _line(at, instant, f"{name}, instant", paint, yaxis, width=0.75)
        traces += _line(*_counter_power(at, counter), f"{name}, counter", paint, yaxis, dash="dot")
    return traces


_COLUMNS = ("power_mw", "power_instant_mw", "energy_mj")


def _column(rows: pa.Table, name: str) -> FloatArray:
    """Watts or joules; NaN when missing."""
    values: FloatArray = np.asarray(pc.cast(rows[name], pa.float64()).to_numpy(), dtype=np.float64) / 1e3
    return values


def _counter_power(at: FloatArray, energy_j: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Watts from a counter over steps of about a second; a step backwards (a reset or wrap) is left out."""
    known = np.isfinite(energy_j)
    at, energy_j = at[known], energy_j[known]
    if at.size < 3:
        return np.array([]), np.array([])
    steps = np.unique(np.searchsorted(at, np.arange(at[0], at[-1], 1.0)))
    seconds, joules = np.diff(at[steps]), np.diff(energy_j[steps])
    good = (seconds > 0) & (joules >= 0)
    return (at[steps][:-1] + seconds / 2)[good], joules[good] / seconds[good]


def _line(
    at: FloatArray, watts: FloatArray, name: str, paint: str, yaxis: str, *, dash: str = "solid", width: float = 1.5
) -> list[Trace]:
    known = np.isfinite(watts)
    at, watts = at[known], watts[known]
    if not at.size:
        return []
    blocks = np.array_split(np.arange(at.size), min(at.size, _POINTS))
    xs = [float(at[block].mean()) for block in blocks]
    ys = [float(watts[block].mean()) for block in blocks]
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plain(name),
            "x": xs,
            "y": ys,
            "yaxis": yaxis,
            "line": {"color": paint, "width": width, "dash": dash},
            "customdata": [f"{x:.2f} s<br>{plain(name)} {shown(y, 'W')}" for x, y in zip(xs, ys, strict=True)],
            "hovertemplate": _HOVER,
        }
    ]
