"""The server's side of a stage: its own gauges over time, its counts, and whether they agree with ours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from observatory.compare.stages import FloatArray
from observatory.pages.charts import Chart, Trace, axis, colour, layout, shown
from observatory.pages.results import RunResults, StageResults
from runners.server.metrics import BY_KEY, Kind
from runners.server.series import series

_NS = 1e9
_HOVER = "%{customdata}<extra></extra>"
#: Strips from the top: title, unit, and the keys drawn in it.
_STRIPS = (
    ("Running,<br>requests", "requests", ("requests_running",)),
    ("Queue,<br>requests", "requests", ("requests_queued",)),
    ("KV cache<br>in use, %", "%", ("kv_use",)),
)
_STRIP_PX, _GAP_PX = 110, 22
_MAX_POINTS = 1_000


@dataclass(frozen=True)
class Number:
    """A number of the server's with the words that the table of server metrics has for it."""

    label: str
    help: str
    unit: str
    values: Mapping[str, float | None]


def account(results: RunResults, stage: StageResults) -> dict[str, Any]:
    """What the tab shows; ``stage`` is None where the page was not read during it."""
    found = results.server_account(stage)
    return {
        "run": results.summary.get("server") or {},
        "stage": found,
        "agreement": (found or {}).get("agreement", []),
        "gauges": _numbers((found or {}).get("gauges", {})),
        "counters": _counters(found) if found else [],
        "shares": [(_SHARE_WORDS[name], 100 * value) for name, value in (found or {}).get("shares", {}).items()],
        "histograms": _numbers((found or {}).get("histograms", {})),
    }


_SHARE_WORDS = {
    "prefix_hit_share": "Prefix cache hits, of the tokens asked for",
    "accepted_share": "Accepted, of the drafted tokens",
    "sent_on_share": "Asked of the large model, of the routed requests",
}


def _numbers(found: Mapping[str, Mapping[str, float | None]]) -> list[Number]:
    """Times in milliseconds and shares in percent, so that they read as elsewhere."""
    made = []
    for key, values in found.items():
        metric = BY_KEY[key]
        unit, scale = {"s": ("ms", 1e3), "share": ("%", 100.0)}.get(metric.unit, (metric.unit, 1.0))
        scaled = {name: value if value is None or name == "n" else scale * value for name, value in values.items()}
        made.append(Number(metric.label, metric.help, unit, scaled))
    return made


def _counters(found: Mapping[str, Any]) -> list[Number]:
    seconds = found["span"]["seconds"]
    return [
        Number(
            BY_KEY[key].label,
            BY_KEY[key].help,
            BY_KEY[key].unit,
            {"grown": grown, "rate": grown / seconds if grown is not None and seconds > 0 else None},
        )
        for key, grown in found["counters"].items()
    ]


def strips(results: RunResults, stage: StageResults) -> Chart | None:
    """Over the time of the request timeline: seconds since the stage began. None without rows of its time."""
    time = _time(results.rows, stage.index)
    if results.server is None or time is None:
        return None
    start_ns, end_ns = time
    inside = pc.and_(pc.greater_equal(results.server["t_ns"], start_ns), pc.less_equal(results.server["t_ns"], end_ns))
    rows = results.server.filter(inside)
    found = [(title, unit, keys, _lines(rows, keys, start_ns)) for title, unit, keys in _STRIPS]
    drawn = [strip for strip in found if strip[3]]
    if not drawn:
        return None
    traces = [
        _line(key, unit, at, values, place)
        for place, (_, unit, _, lines) in enumerate(drawn)
        for key, (at, values) in lines.items()
    ]
    end_s = (end_ns - start_ns) / _NS
    return Chart(_figure(traces, [title for title, *_ in drawn], end_s), *_table(drawn))


def _time(rows: pa.Table | None, stage: int) -> tuple[int, int] | None:
    """From the first request of the stage to its last end."""
    if rows is None:
        return None
    sent = rows.filter(pc.and_(pc.equal(rows["stage"], stage), pc.is_valid(rows["sent_ns"])))
    if not sent.num_rows:
        return None
    start_ns = min(pc.min(sent["sent_ns"]).as_py(), pc.min(sent["due_ns"]).as_py() or np.inf)
    return int(start_ns), int(pc.max(sent["end_ns"]).as_py() or pc.max(sent["sent_ns"]).as_py())


_Lines = dict[str, tuple[FloatArray, FloatArray]]


def _lines(rows: pa.Table, keys: Sequence[str], start_ns: int) -> _Lines:
    found: _Lines = {}
    for key in keys:
        of = series(rows, key)
        if len(of.t_ns):
            scale = 100.0 if BY_KEY[key].kind is Kind.SHARE else 1.0
            picked = np.unique(np.linspace(0, len(of.t_ns) - 1, min(len(of.t_ns), _MAX_POINTS)).astype(int))
            found[key] = ((of.t_ns[picked] - start_ns) / _NS, scale * of.values[picked])
    return found


def _line(key: str, unit: str, at: FloatArray, values: FloatArray, place: int) -> Trace:
    label = BY_KEY[key].label
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": label,
        "x": at.tolist(),
        "y": values.tolist(),
        "yaxis": "y" if place == 0 else f"y{place + 1}",
        "line": {"width": 1.5, "color": colour(place + 3)},
        "marker": {"size": 4},
        "customdata": [f"{x:.2f} s<br>{label} {shown(float(y), unit)}" for x, y in zip(at, values, strict=True)],
        "hovertemplate": _HOVER,
        "showlegend": False,
    }


def _figure(traces: list[Trace], titles: Sequence[str], end_s: float) -> dict[str, Any]:
    total_px = len(titles) * (_STRIP_PX + _GAP_PX)
    last = "y" if len(titles) == 1 else f"y{len(titles)}"
    x = axis("Time since the stage began, s", range=[-0.01 * end_s, 1.01 * end_s], anchor=last)
    drawn = layout(x, {}, height=total_px + 80)
    for place, title in enumerate(titles):
        top = 1 - place * (_STRIP_PX + _GAP_PX) / total_px
        name = "yaxis" if place == 0 else f"yaxis{place + 1}"
        drawn[name] = axis(title, domain=[max(0.0, top - _STRIP_PX / total_px), top], nticks=4)
    return {"data": traces, "layout": drawn}


def _table(drawn: Sequence[tuple[str, str, Sequence[str], _Lines]]) -> tuple[list[str], list[list[str]]]:
    """A row a reading of the page."""
    columns = {key: (unit, *lines[key]) for _, unit, _, lines in drawn for key in lines}
    times = sorted({round(float(x), 3) for _, at, _ in columns.values() for x in at})
    cells = {key: dict(zip(np.round(at, 3).tolist(), values, strict=True)) for key, (_, at, values) in columns.items()}
    rows = [
        [f"{time:.2f} s", *(shown(_float(cells[key].get(time)), columns[key][0]) for key in columns)] for time in times
    ]
    return ["Time", *(BY_KEY[key].label for key in columns)], rows


def _float(value: Any) -> float | None:
    return None if value is None else float(value)
