"""Charts of a study: what each arm measured beside what theory predicts, and the effects with their intervals."""

from collections.abc import Sequence
from typing import Any

from observatory.compare.quality import number
from observatory.compare.stages import Number
from observatory.pages.charts import GREY, NOTHING, Chart, Trace, axis, axis_title, colour, layout, plain, shown
from observatory.pages.quality_charts import Point, quality_against
from observatory.studies.findings import Cell, Result, Row
from observatory.studies.words import change, interval
from runners.metrics import Shape

_HOVER = "%{customdata}<extra></extra>"


def values(result: Result, row: Row, factor: str) -> Chart:
    """Means over the repeats with their intervals, each repeat as a small point, the prediction dashed."""
    if all(cell.mean is None for cell in row.cells):
        return NOTHING
    along = all(found.arm.x is not None for found in result.arms)
    xs: list[Any] = [found.arm.x if along else plain(found.arm.name) for found in result.arms]
    traces = [_repeats(result, row, xs), _means(result, row, xs, along=along)]
    if any(cell.predicted and cell.predicted.value is not None for cell in row.cells):
        traces.append(_predictions(result, row, xs, along=along))
    statistic = "" if row.measure.metric.shape is Shape.RATE else row.measure.statistic
    drawn = [value for trace in traces for value in trace["y"]]
    x = axis(plain(factor), of=xs) if along else axis("", type="category")
    return Chart(
        {
            "data": traces,
            "layout": layout(x, axis(axis_title(row.measure.metric.key, statistic, upright=True), of=drawn)),
        },
        ("Arm", "Mean", "95 % interval", "Repeats", "Predicted"),
        [_table_row(result, row, index) for index in range(len(row.cells))],
        "Small points are single repeats; whiskers are 95 % intervals over them.",
    )


def _table_row(result: Result, row: Row, index: int) -> Sequence[str]:
    cell, unit = row.cells[index], row.measure.metric.unit
    estimate = cell.mean
    bounds = (
        f"{shown(estimate.low, unit)} to {shown(estimate.high, unit)}" if estimate and estimate.low is not None else "–"
    )
    predicted = cell.predicted.value if cell.predicted else None
    name = result.arms[index].arm.name
    return [
        name,
        shown(estimate.value if estimate else None, unit),
        bounds,
        str(len(cell.values)),
        shown(predicted, unit),
    ]


def _repeats(result: Result, row: Row, xs: Sequence[Any]) -> Trace:
    points = [
        (
            xs[index],
            value,
            f"{plain(result.arms[index].arm.name)}, repeat {repeat}<br>{shown(value, row.measure.metric.unit)}",
        )
        for index, cell in enumerate(row.cells)
        for repeat, value in cell.values.items()
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "repeats",
        "x": [x for x, _, _ in points],
        "y": [y for _, y, _ in points],
        "customdata": [text for _, _, text in points],
        "hovertemplate": _HOVER,
        "marker": {"size": 5, "color": GREY},
    }


def _means(result: Result, row: Row, xs: Sequence[Any], *, along: bool) -> Trace:
    cells = row.cells
    return {
        "type": "scatter",
        "mode": "lines+markers" if along else "markers",
        "name": "measured",
        "x": xs,
        "y": [cell.mean.value if cell.mean else None for cell in cells],
        "customdata": [_said(result, row, index) for index in range(len(cells))],
        "hovertemplate": _HOVER,
        "marker": {
            "size": 11,
            "color": colour(0),
            "symbol": ["circle" if _whole(cell) else "circle-open" for cell in cells],
        },
        "line": {"color": colour(0), "width": 2},
        "error_y": {
            "type": "data",
            "array": [_reach(cell)[1] for cell in cells],
            "arrayminus": [_reach(cell)[0] for cell in cells],
            "color": colour(0),
            "thickness": 1.5,
            "width": 5,
        },
    }


def _whole(cell: Cell) -> bool:
    return cell.mean is not None and cell.mean.low is not None


def _reach(cell: Cell) -> tuple[float, float]:
    found = cell.mean
    if found is None or found.low is None or found.high is None:
        return 0.0, 0.0
    return found.value - found.low, found.high - found.value


def _said(result: Result, row: Row, index: int) -> str:
    unit, found = row.measure.metric.unit, row.cells[index].mean
    if found is None:
        return ""
    spread = "" if found.low is None else f"<br>{shown(found.low, unit)} to {shown(found.high, unit)}"
    name = plain(result.arms[index].arm.name)
    return f"{name}<br>{plain(row.measure.label)} {shown(found.value, unit)}{spread}<br>n = {found.n}"


def _predictions(result: Result, row: Row, xs: Sequence[Any], *, along: bool) -> Trace:
    unit = row.measure.metric.unit
    predicted = [cell.predicted.value if cell.predicted else None for cell in row.cells]
    return {
        "type": "scatter",
        "mode": "lines+markers" if along else "markers",
        "name": "predicted",
        "x": xs,
        "y": predicted,
        "customdata": [
            f"{plain(found.arm.name)}<br>predicted {shown(value, unit)}"
            for found, value in zip(result.arms, predicted, strict=True)
        ],
        "hovertemplate": _HOVER,
        "marker": {"size": 11, "color": colour(1), "symbol": "diamond-open", "line": {"width": 2}},
        "line": {"color": colour(1), "width": 1.5, "dash": "dash"},
    }


def quality(result: Result, metric: str) -> Chart:
    """Accuracy of each arm against what a query of it takes, with the intervals of both."""
    found = result.quality
    if not found.known:
        return Chart(None, note="No arm has a quality result yet.")
    cells = next(row.cells for row in result.rows if row.measure.key == (metric, "mean"))
    points = [
        Point(
            one.arm.name,
            number(one.found.value, one.found.low, one.found.high, one.found.n),
            Number(cell.mean.value, cell.mean.low, cell.mean.high, cell.mean.n, cell.mark) if cell.mean else None,
            href=one.found.get_absolute_url(),
        )
        for one, cell in zip(found.arms, cells, strict=True)
        if one.found is not None and one.found.value is not None
    ]
    return quality_against(points, metric, found.task_set, who="Arm")


def effects(result: Result, row: Row, smallest_percent: float) -> Chart:
    """Each arm against the baseline with its interval, and what theory predicts; around zero what does not matter."""
    drawn = [
        (found.arm.name, cell)
        for found, cell in zip(result.arms, row.cells, strict=True)
        if cell.effect is not None and cell.effect.estimate is not None and cell.effect.relative
    ]
    if not drawn:
        return Chart(None, note="There is no relative effect to draw: no repeat has both arms, or shares are compared.")
    base = row.cells[0].mean
    traces = [_effect_points(row, drawn), _predicted_effects(drawn, base.value if base else None)]
    title = f"{row.measure.label} against {plain(result.arms[0].arm.name)}, %"
    x = axis(f"{title}, {row.measure.better} is better", rangemode="normal", zeroline=True)
    y = axis("", type="category", autorange="reversed")
    figure = layout(x, y, height=120 + 44 * len(drawn))
    figure["shapes"] = [_band(smallest_percent)]
    rows = [_effect_row(row, name, cell) for name, cell in drawn]
    note = f"Shaded: differences below {smallest_percent:g} %, which do not matter here. Diamonds: predicted."
    return Chart({"data": [trace for trace in traces if trace["x"]], "layout": figure}, _EFFECT_COLUMNS, rows, note)


_EFFECT_COLUMNS = ("Arm", "Effect", "95 % interval", "Repeats", "Verdict")


def _effect_row(row: Row, name: str, cell: Cell) -> Sequence[str]:
    unit, effect = row.measure.metric.unit, cell.effect
    assert effect is not None and effect.estimate is not None  # noqa: S101, PT018
    return [name, change(effect, unit), interval(effect, unit) or "–", str(effect.estimate.n), effect.word.value]


def _band(percent: float) -> dict[str, Any]:
    place = {"xref": "x", "yref": "paper", "x0": -percent, "x1": percent, "y0": 0, "y1": 1}
    return {"type": "rect", **place, "fillcolor": GREY, "opacity": 0.18, "line": {"width": 0}, "layer": "below"}


def _percent(ratio: float) -> float:
    return 100 * (ratio - 1)


def _effect_points(row: Row, drawn: Sequence[tuple[str, Cell]]) -> Trace:
    estimates = [cell.effect.estimate for _, cell in drawn if cell.effect and cell.effect.estimate]
    middles = [_percent(found.value) for found in estimates]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "measured",
        "x": middles,
        "y": [plain(name) for name, _ in drawn],
        "customdata": [
            "<br>".join(plain(part) for part in (*_effect_row(row, name, cell)[:3], f"n = {found.n}"))
            for (name, cell), found in zip(drawn, estimates, strict=True)
        ],
        "hovertemplate": _HOVER,
        "marker": {
            "size": 11,
            "color": colour(0),
            "symbol": ["circle" if found.low is not None else "circle-open" for found in estimates],
        },
        "error_x": {
            "type": "data",
            "array": [
                0 if found.high is None else _percent(found.high) - x
                for found, x in zip(estimates, middles, strict=True)
            ],
            "arrayminus": [
                0 if found.low is None else x - _percent(found.low) for found, x in zip(estimates, middles, strict=True)
            ],
            "color": colour(0),
            "thickness": 1.5,
            "width": 5,
        },
    }


def _predicted_effects(drawn: Sequence[tuple[str, Cell]], base: float | None) -> Trace:
    known = [
        (name, _percent(cell.predicted.value / base))
        for name, cell in drawn
        if base and cell.predicted is not None and cell.predicted.value is not None
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "predicted",
        "x": [x for _, x in known],
        "y": [plain(name) for name, _ in known],
        "customdata": [f"{plain(name)}<br>predicted {x:+.1f} %" for name, x in known],
        "hovertemplate": _HOVER,
        "marker": {"size": 11, "color": colour(1), "symbol": "diamond-open", "line": {"width": 2}},
    }
