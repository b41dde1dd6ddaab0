"""From a run's data to Plotly figures: pure functions, JSON-safe, with the same numbers as a table.

Colours of text, grid and background belong to the theme and are set by charts.js. Hover text is built here and shown
through ``customdata``: what users wrote is escaped and is never a template. Of markup only <br> is used: <b> and <i>
become style attributes, which the content security policy forbids.
"""

import html
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from typing import Any

import numpy as np

from observatory.compare.stages import FloatArray, Number
from runners.metrics import BY_KEY, PERCENTILE_MIN_N, Better, display, significant

Figure = dict[str, Any]
Trace = dict[str, Any]

#: Okabe and Ito's order, its light colours darkened until each stands out 3:1 on a light and on a dark page.
COLOURS = ("#0072b2", "#bd8100", "#009e73", "#cc79a7", "#2e93cc", "#8f8500", "#d55e00", "#8a8f94")
GREY = "#8a8f94"
FAILURE = "#d1372c"
ECDF_POINTS = 400
PERCENTILES = ("p50", "p90", "p95", "p99")

_FONT = {"family": "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif", "size": 12}
_HOVER = "%{customdata}<extra></extra>"
_DIRECTION = {Better.LOWER: ", lower is better", Better.HIGHER: ", higher is better", Better.NEITHER: ""}


@dataclass(frozen=True)
class Chart:
    """A figure, its numbers as a table, and a note on what was left out."""

    figure: Figure | None
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"figure": self.figure, "columns": self.columns, "rows": self.rows, "note": self.note}


NOTHING = Chart(None, note="There is nothing to draw: nothing of this kind is kept for the run.")


@dataclass(frozen=True)
class StagePoint:
    """A stage as charts need it: ``short`` is its load alone, under an axis or beside a point; ``why_hollow`` is empty
    when its numbers may be taken as they are.
    """

    label: str
    numbers: Mapping[tuple[str, str], Number]
    samples: Mapping[str, FloatArray] = field(default_factory=dict)
    why_hollow: str = ""
    colour: str = GREY
    href: str = ""
    short: str = ""
    load_name: str = "Load"


#: Stage, median latency, output throughput, interval of the median.
_LoadPoint = tuple[StagePoint, Number, Number, tuple[float, float] | None]


def visible(text: object) -> str:
    """Text with its hidden characters, such as those that turn the order of letters, spelled out."""
    return "".join(f"\\u{ord(sign):04x}" if unicodedata.category(sign) in ("Cf", "Cc") else sign for sign in str(text))


def plain(text: object) -> str:
    """Text from users as Plotly shall show it, without markup."""
    return html.escape(visible(text), quote=False)


def shown(value: float | None, unit: str) -> str:
    """A number with its unit for hover and tables."""
    text, name = display(value, unit)
    return f"{text} {name}".strip()


def axis_title(metric: str, statistic: str = "", *, upright: bool = False) -> str:
    """Such as "TTFT p99, ms, lower is better"; on two lines where it stands ``upright`` beside a chart."""
    found = BY_KEY[metric]
    direction = _DIRECTION[found.better]
    direction = direction.replace(" ", "<br>", 1) if upright else direction
    return f"{found.label}{f' {statistic}' if statistic else ''}, {found.unit}{direction}"


def axis(title: str, *, of: Iterable[float | None] = (), **more: Any) -> dict[str, Any]:
    """An axis as everywhere, titled with unit and direction.

    ``of``: the values on it. Where they span ratios the axis is logarithmic, else it begins at zero.
    """
    shape: dict[str, Any] = {"rangemode": "tozero"}
    known = [value for value in of if value is not None and value > 0]
    if ratios_matter(known):
        ticks = _log_ticks(min(known), max(known))
        text = [significant(tick, 1) for tick in ticks]
        shape = {"type": "log", "tickmode": "array", "tickvals": ticks, "ticktext": text}
    named = {"text": title, "standoff": 8, "font": {"size": 12}}
    return {"title": named, "automargin": True, "zeroline": False, **shape, **more}


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times each power of ten from just below ``low`` to just above ``high``; the powers alone over many."""
    steps = (1, 2, 5) if high / low < 1e5 else (1,)
    powers = range(floor(log10(low)) - 1, floor(log10(high)) + 2)
    ticks = [step * 10.0**power for power in powers for step in steps]
    return [tick for tick in ticks if low / 2.5 <= tick <= high * 2.5]


def layout(xaxis: dict[str, Any], yaxis: dict[str, Any], height: int = 320, **more: Any) -> dict[str, Any]:
    """The shared template of both themes."""
    return {
        "xaxis": xaxis,
        "yaxis": yaxis,
        "height": height,
        "font": _FONT,
        "colorway": COLOURS,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "margin": {"l": 56, "r": 16, "t": 12, "b": 44},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "hoverlabel": {"align": "left"},
        "hovermode": "closest",
        "uirevision": "kept",
        "dragmode": False,
        **more,
    }


def colour(index: int) -> str:
    return COLOURS[index % len(COLOURS)]


def ratios_matter(values: Iterable[float | None]) -> bool:
    """Whether the values span so much that a log axis shows them better."""
    positive = [value for value in values if value is not None and value > 0]
    return len(positive) > 1 and max(positive) / min(positive) > 8


def throughput_against_latency(
    stages: Sequence[StagePoint], latency: str = "e2e_ms", intervals: Sequence[tuple[float, float] | None] = ()
) -> Chart:
    """A point a stage: output throughput over the median of a latency, or of interactivity, with its ``intervals``."""
    points = [
        (stage, stage.numbers[latency, "p50"], stage.numbers["output_tokens_per_s", "mean"], interval)
        for stage, interval in zip(stages, intervals or [None] * len(stages), strict=True)
        if (latency, "p50") in stage.numbers and ("output_tokens_per_s", "mean") in stage.numbers
    ]
    unit = BY_KEY[latency].unit
    absent = _without_median([stage for stage in stages if all(stage is not point[0] for point in points)], latency)
    if not points:
        return Chart(None, note=absent or NOTHING.note)
    rows = [[stage.label, shown(x.value, unit), shown(y.value, "tok/s"), stage.why_hollow] for stage, x, y, _ in points]
    hollow = [f"{stage.label}: {stage.why_hollow}" for stage, *_ in points if stage.why_hollow]
    x = axis(axis_title(latency, "p50"), of=[point[1].value for point in points])
    y = axis(axis_title("output_tokens_per_s", upright=True), of=[point[2].value for point in points])
    return Chart(
        {"data": [_load_line(points, latency)], "layout": layout(x, y)},
        ("Load", f"{BY_KEY[latency].label} p50", "Output throughput", "Hollow because"),
        rows,
        " ".join(part for part in (f"Hollow: {'; '.join(hollow)}." if hollow else "", absent) if part),
    )


def _without_median(stages: Sequence[StagePoint], metric: str) -> str:
    """Why these stages have no point: one that is missing is never missing in silence."""
    few, others = [], []
    for stage in stages:
        mean = stage.numbers.get((metric, "mean"))
        if mean is not None and mean.n is not None and mean.n < PERCENTILE_MIN_N["p50"]:
            few.append(f"{stage.label} (n={mean.n})")
        else:
            others.append(stage.label)
    what = "gaps" if metric == "itl_ms" else "requests"
    parts = [f"Too few {what} for a median: {', '.join(few)}."] if few else []
    return " ".join([*parts, *([f"Not observed at {', '.join(others)}."] if others else [])])


def _load_line(points: Sequence[_LoadPoint], latency: str) -> Trace:
    xs, ys = [point[1].value for point in points], [point[2].value for point in points]
    stages = [stage for stage, *_ in points]
    return {
        "type": "scatter",
        "mode": "lines+markers+text",
        "x": xs,
        "y": ys,
        "text": [plain(stage.short or stage.label) for stage in stages],
        "textposition": "top center",
        "cliponaxis": False,
        "customdata": [_load_hover(*point, latency) for point in points],
        "hovertemplate": _HOVER,
        "marker": {
            "size": 11,
            "color": [stage.colour for stage in stages],
            "symbol": ["circle-open" if stage.why_hollow else "circle" for stage in stages],
            "line": {"width": 2},
        },
        "line": {"color": GREY, "width": 1},
        "error_x": _whiskers(xs, [interval for *_, interval in points]),
        "error_y": _whiskers(ys, [(point[2].low, point[2].high) for point in points]),
        "showlegend": False,
        "meta": [stage.href for stage in stages],
    }


def _load_hover(stage: StagePoint, x: Number, y: Number, interval: tuple[float, float] | None, latency: str) -> str:
    found = BY_KEY[latency]
    lines = [f"{plain(stage.label)}", f"{found.label} p50 {shown(x.value, found.unit)}{_between(interval)}"]
    lines.append(f"Output {shown(y.value, 'tok/s')}{_between((y.low, y.high))}")
    lines.append(f"n = {x.n}" if x.n is not None else "")
    lines.append(f"hollow: {plain(stage.why_hollow)}" if stage.why_hollow else "")
    return "<br>".join(line for line in lines if line)


def _between(interval: tuple[float | None, float | None] | None) -> str:
    if interval is None or interval[0] is None or interval[1] is None:
        return ""
    return f" ({display(interval[0], '')[0]} to {display(interval[1], '')[0]})"


def _whiskers(values: Sequence[float], intervals: Sequence[tuple[float | None, float | None] | None]) -> dict[str, Any]:
    up, down = [], []
    for value, interval in zip(values, intervals, strict=True):
        low, high = interval or (None, None)
        up.append(0 if high is None else max(0.0, high - value))
        down.append(0 if low is None else max(0.0, value - low))
    return {"type": "data", "array": up, "arrayminus": down, "color": GREY, "thickness": 1, "width": 4}


def ecdf(stages: Sequence[StagePoint], metric: str) -> Chart:
    """Share of requests (of gaps) at or below each value, a line a stage; dotted where the stage is hollow."""
    drawn = [stage for stage in stages if stage.samples.get(metric) is not None and stage.samples[metric].size]
    if not drawn:
        known = any((metric, "mean") in stage.numbers for stage in stages)
        words = "no raw rows are kept" if known else "no stage has it"
        return Chart(None, note=f"There is nothing to draw of {BY_KEY[metric].label}: {words}.")
    absent = [stage.label for stage in stages if all(stage is not other for other in drawn)]
    traces = [_ecdf_line(stage, metric) for stage in drawn]
    spread = [value for trace in traces for value in (trace["x"][0], trace["x"][-1])]
    unit = BY_KEY[metric].unit
    rows = [
        [
            stage.label,
            str(stage.samples[metric].size),
            *(_percentile(stage.samples[metric], p, unit) for p in PERCENTILES),
        ]
        for stage in drawn
    ]
    what = "gaps" if metric == "itl_ms" else "requests"
    y = axis(f"Share of {what}, %", range=[0, 100.5], dtick=25)
    x = axis(axis_title(metric), of=spread)
    return Chart(
        {"data": traces, "layout": layout(x, y)},
        ("Load", "n", *PERCENTILES),
        rows,
        f"Not observed at {', '.join(absent)}." if absent else "",
    )


def _ecdf_line(stage: StagePoint, metric: str) -> Trace:
    values = np.sort(stage.samples[metric])
    picked = np.unique(np.linspace(0, values.size - 1, min(values.size, ECDF_POINTS)).astype(int))
    share = 100 * (picked + 1) / values.size
    unit = BY_KEY[metric].unit
    return {
        "type": "scatter",
        "mode": "lines",
        "name": plain(stage.label),
        "x": values[picked].tolist(),
        "y": share.tolist(),
        "line": {"shape": "hv", "color": stage.colour, "width": 2, "dash": "dot" if stage.why_hollow else "solid"},
        "customdata": [
            f"{plain(stage.label)}<br>{part:.1f} % at or below {shown(float(value), unit)}<br>n = {values.size}"
            for value, part in zip(values[picked], share, strict=True)
        ],
        "hovertemplate": _HOVER,
    }


def _percentile(values: FloatArray, statistic: str, unit: str) -> str:
    if values.size < PERCENTILE_MIN_N[statistic]:
        return f"too few (n={values.size})"
    return shown(float(np.percentile(values, float(statistic[1:]))), unit)


def percentiles_by_stage(stages: Sequence[StagePoint], metric: str) -> Chart:
    """Percentiles of a latency over the load levels; a percentile without enough samples has no point."""
    unit = BY_KEY[metric].unit
    lines = [_percentile_line(stages, metric, statistic, index) for index, statistic in enumerate(PERCENTILES)]
    traces = [line for line in lines if any(value is not None for value in line["y"])]
    absent = _without_median([stage for stage in stages if (metric, "p50") not in stage.numbers], metric)
    if not traces:
        return Chart(None, note=absent or NOTHING.note)
    y = axis(axis_title(metric, upright=True), of=[value for trace in traces for value in trace["y"]])
    rows = [[stage.label, *(_stated(stage, metric, p, unit) for p in PERCENTILES)] for stage in stages]
    x = axis(stages[0].load_name, type="category")
    return Chart({"data": traces, "layout": layout(x, y)}, ("Load", *PERCENTILES), rows, absent)


def _percentile_line(stages: Sequence[StagePoint], metric: str, statistic: str, index: int) -> Trace:
    numbers = [stage.numbers.get((metric, statistic)) for stage in stages]
    values = [None if number is None else number.value for number in numbers]
    symbols = ["circle-open" if stage.why_hollow else "circle" for stage in stages]
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": statistic,
        "x": [plain(stage.short or stage.label) for stage in stages],
        "y": values,
        "marker": {"size": 8, "symbol": symbols},
        "line": {"color": colour(index), "width": 2},
        "customdata": [
            f"{plain(stage.label)}<br>{statistic} {shown(value, BY_KEY[metric].unit)}"
            for stage, value in zip(stages, values, strict=True)
        ],
        "hovertemplate": _HOVER,
    }


def _stated(stage: StagePoint, metric: str, statistic: str, unit: str) -> str:
    number, mean = stage.numbers.get((metric, statistic)), stage.numbers.get((metric, "mean"))
    if number is not None:
        return shown(number.value, unit)
    return "–" if mean is None else f"too few (n={mean.n})"


#: Traces of the live chart: the key of a progress point, label, unit, direction.
LIVE = (
    ("output_tokens_per_s", "Output", "tok/s", "higher is better"),
    ("ttft_ms", "TTFT", "ms", "lower is better"),
)


def live(series: Sequence[Mapping[str, Any]]) -> Chart:
    """Throughput and TTFT over the time that a run has been going, one above the other."""
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": label,
            "x": [point["t_s"] for point in series],
            "y": [point.get(key) for point in series],
            "customdata": [live_hover(point, key) for point in series],
            "hovertemplate": _HOVER,
            "line": {"color": colour(index), "width": 2},
            "yaxis": f"y{index + 1 if index else ''}",
        }
        for index, (key, label, _, _) in enumerate(LIVE)
    ]
    strips = [axis(f"{label}, {unit},<br>{way}") for _, label, unit, way in LIVE]
    drawn = layout(axis("Time since the start, s", anchor="y2"), strips[0] | {"domain": [0.55, 1]})
    drawn |= {"yaxis2": strips[1] | {"domain": [0, 0.45]}, "showlegend": False}
    rows = [
        [f"{point['t_s']:.0f} s", *(shown(point.get(key), unit) for key, _, unit, _ in LIVE)] for point in series[-60:]
    ]
    return Chart({"data": traces, "layout": drawn}, ("Time", "Output", "TTFT"), rows)


def live_hover(point: Mapping[str, Any], key: str) -> str:
    unit = next(unit for name, _, unit, _ in LIVE if name == key)
    load = point.get("load") or {}
    return (
        f"{point['t_s']:.0f} s, {plain(load.get('kind', ''))} {load.get('value', 0):g}<br>{shown(point.get(key), unit)}"
    )
