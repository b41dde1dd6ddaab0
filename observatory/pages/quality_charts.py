"""Quality against what it costs: a point a deployment, with the intervals of both. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

from observatory.compare.stages import Number
from observatory.pages.charts import Chart, Trace, axis, axis_title, colour, layout, plain, shown
from runners.metrics import BY_KEY

#: What quality is set against.
AXES = ("usd_per_mtok_output", "wh_per_query")
_HOVER = "%{customdata}<extra></extra>"


@dataclass(frozen=True)
class Point:
    """A deployment's accuracy and the number of the load run beside it; ``run`` says which run and load."""

    name: str
    accuracy: Number
    price: Number | None
    run: str = ""
    href: str = ""


def quality_against(points: Sequence[Point], metric: str, task_set: str, who: str = "Deployment") -> Chart:
    """Up and to the left is better; who lacks one of the two is named below. ``who``: what a point is."""
    drawn = [(point, point.price) for point in points if point.price is not None]
    absent = [point.name for point in points if point.price is None]
    missing = (
        f"“{BY_KEY[metric].label}” is not known of {', '.join(absent)}: run a benchmark there, with a price and power."
    )
    note = missing if absent else ""
    if not drawn:
        return Chart(None, note=note or "There is no quality result yet.")
    x = axis(axis_title(metric), of=[price.value for _, price in drawn])
    y = axis(f"Accuracy on {plain(task_set)}, %,<br>higher is better", rangemode="normal")
    rows = [
        [point.name, _stated(point.accuracy, "%"), _stated(price, BY_KEY[metric].unit), *filter(None, [point.run])]
        for point, price in drawn
    ]
    traces = [_dot(point, price, metric, index) for index, (point, price) in enumerate(drawn)]
    columns = (who, "Accuracy", BY_KEY[metric].label, *(["Load run"] if any(point.run for point in points) else []))
    return Chart({"data": traces, "layout": layout(x, y, showlegend=True)}, columns, rows, note)


def _dot(point: Point, price: Number, metric: str, index: int) -> Trace:
    unit = BY_KEY[metric].unit
    lines = [
        plain(point.name),
        f"Accuracy {_stated(point.accuracy, '%')}",
        f"{BY_KEY[metric].label} {_stated(price, unit)}",
        plain(point.run),
    ]
    hollow = price.mark != "measured"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": plain(point.name),
        "x": [price.value],
        "y": [point.accuracy.value],
        "error_x": _bars(price, colour(index)),
        "error_y": _bars(point.accuracy, colour(index)),
        "marker": {"size": 11, "color": colour(index), "symbol": "circle-open" if hollow else "circle"},
        "customdata": ["<br>".join(line for line in lines if line)],
        "hovertemplate": _HOVER,
        "meta": [point.href],
    }


def _bars(number: Number, ink: str) -> dict[str, object]:
    up = 0.0 if number.high is None else max(0.0, number.high - number.value)
    down = 0.0 if number.low is None else max(0.0, number.value - number.low)
    return {"type": "data", "array": [up], "arrayminus": [down], "color": ink, "thickness": 1.5, "width": 4}


def _stated(number: Number, unit: str) -> str:
    text = shown(number.value, unit)
    if number.low is None or number.high is None:
        return f"{text}, no interval"
    return f"{text} ({shown(number.low, unit)} to {shown(number.high, unit)})"
