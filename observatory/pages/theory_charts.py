"""From a calculator's plots to Plotly figures."""

from collections.abc import Iterable, Sequence
from typing import Any

from observatory.pages.charts import (
    GREY,
    Chart,
    Figure,
    Trace,
    axis,
    colour,
    layout,
    plain,
    shown,
)
from observatory.theory.calculator import Axis, Line, Plot

_HOVER = "%{customdata}<extra></extra>"
_MOST_ROWS = 400


def chart(plot: Plot) -> Chart:
    """The figure of a plot with its numbers."""
    drawn = _layout(plot)
    positive = drawn["yaxis"].get("type") == "log"  # a zero has no place there
    traces = [_trace(plot, line, index, positive) for index, line in enumerate(plot.lines)]
    return Chart(
        {"data": traces, "layout": drawn},
        (plot.x.label, *(line.label for line in plot.lines)) if _shared(plot) else ("Line", plot.x.label, plot.y.label),
        _rows(plot)[:_MOST_ROWS],
        plot.note,
    )


def _layout(plot: Plot) -> Figure:
    x = _axis(plot.x, _numbers(plot.lines)) if not plot.bars else axis(_title(plot.x), type="category")
    ys = [] if plot.bars else [y for line in plot.lines for y in line.y if y is not None]
    y = _axis(plot.y, ys, upright=True)
    drawn = layout(x, y, height=320, barmode="group", showlegend=len(plot.lines) > 1)
    if plot.now is not None and not (x.get("type") == "log" and plot.now <= 0):
        drawn["shapes"] = [_now(plot.now)]
    return drawn


def _axis(found: Axis, values: list[float], *, upright: bool = False) -> dict[str, Any]:
    """Logarithmic where the values span ratios; an x axis that holds zero is linear."""
    title = _title(found, upright=upright)
    if not found.from_zero:
        return axis(title, rangemode="normal")
    return axis(title, of=values if upright or min(values, default=0) > 0 else ())


def _now(value: float) -> dict[str, Any]:
    """A line where the inputs stand. (Shapes take the value itself on a logarithmic axis too.)"""
    line = {"color": GREY, "width": 1, "dash": "dot"}
    return {"type": "line", "x0": value, "x1": value, "y0": 0, "y1": 1, "yref": "paper", "line": line}


def _numbers(lines: Iterable[Line]) -> list[float]:
    return [float(x) for line in lines for x in line.x if not isinstance(x, str)]


def _title(found: Axis, *, upright: bool = False) -> str:
    unit = f", {found.unit}" if found.unit else ""
    way = f",{'<br>' if upright else ' '}{found.better} is better" if found.better else ""
    return plain(f"{found.label}{unit}") + way


def _trace(plot: Plot, line: Line, index: int, positive: bool) -> Trace:
    mode = "markers" if line.points else "lines"
    drawn = {
        "line": {
            "color": GREY if line.dashed else colour(index),
            "width": 2,
            "dash": "dash" if line.dashed else "solid",
        }
    }
    marks: dict[str, Any] = {"marker": {"color": colour(index), "size": 9}}
    return {
        "type": "bar" if plot.bars else "scatter",
        "name": plain(line.label),
        "x": [plain(x) if isinstance(x, str) else x for x in line.x],
        "y": [None if positive and y is not None and y <= 0 else y for y in line.y],
        "customdata": [_hover(plot, line, x, y) for x, y in zip(line.x, line.y, strict=True)],
        "hovertemplate": _HOVER,
        **(marks if plot.bars else {"mode": mode} | (marks if line.points else drawn)),
    }


def _hover(plot: Plot, line: Line, x: float | str, y: float | None) -> str:
    name = f"<b>{plain(line.label)}</b><br>" if line.label else ""
    return f"{name}{plain(plot.x.label)} {plain(_told(x, plot.x))}<br>{plain(plot.y.label)} {plain(_told(y, plot.y))}"


def _told(value: float | str | None, of: Axis) -> str:
    return value if isinstance(value, str) else shown(value, of.unit)


def _shared(plot: Plot) -> bool:
    """Whether all lines have their points at the same places."""
    return len({line.x for line in plot.lines}) == 1


def _rows(plot: Plot) -> Sequence[Sequence[str]]:
    if _shared(plot):
        places = zip(plot.lines[0].x, *(line.y for line in plot.lines), strict=True)
        return [[_told(x, plot.x), *(_told(y, plot.y) for y in ys)] for x, *ys in places]
    return [
        [line.label, _told(x, plot.x), _told(y, plot.y)]
        for line in plot.lines
        for x, y in zip(line.x, line.y, strict=True)
    ]
