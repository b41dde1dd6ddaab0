"""The power of a whole run, every instrument overlaid, under the requests of one stage."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from observatory.pages.charts import GREY, Chart, Figure, Trace, axis, layout, plain, shown
from observatory.pages.power_lines import power_lines
from observatory.pages.timeline import request_bars, stamps, to_draw

_NS = 1e9
_BARS_PX, _POWER_PX = 170, 230


@dataclass(frozen=True)
class Span:
    """A part of the run that is marked, such as the window of a stage; ``kind``: "window" or "idle"."""

    name: str
    kind: str
    start_ns: int
    end_ns: int


def power_strip(
    rows: pa.Table | None,
    stage: int,
    power: pa.Table | None,
    devices: Mapping[str, str],
    modelled: Collection[str] = (),
    spans: Sequence[Span] = (),
) -> Chart | None:
    """``devices``: names by id. The axis begins with the first span, idle power before the load included. None without
    samples or spans.
    """
    if power is None or not power.num_rows or not spans:
        return None
    start_ns = min(span.start_ns for span in spans)
    end_s = (max(span.end_ns for span in spans) - start_ns) / _NS
    bars = _bars(rows, stage, start_ns)
    lines = power_lines(power, start_ns, (0.0, end_s), devices, modelled, "y2")
    if not lines:
        return None
    means = [[trace["name"], *(_mean(trace, span, start_ns) for span in spans)] for trace in lines]
    return Chart(
        _figure(bars, lines, spans, start_ns, end_s),
        ("Instrument", *(plain(span.name) for span in spans)),
        means,
        "Each line is one instrument of one device. Shaded: windows whose energy is counted (blue) and in which idle "
        "power was read (grey). Dotted: from the energy counter; thin: the instant field; dashed: a model.",
    )


def _bars(rows: pa.Table | None, stage: int, start_ns: int) -> list[Trace]:
    if rows is None:
        return []
    sent = rows.filter(pc.and_(pc.equal(rows["stage"], stage), pc.is_valid(rows["sent_ns"]))).sort_by("sent_ns")
    if not sent.num_rows:
        return []
    times = stamps(sent, start_ns)
    picked = to_draw(sent, times)
    return request_bars(sent.take(picked), {name: values[picked] for name, values in times.items()})


def _mean(trace: Trace, span: Span, start_ns: int) -> str:
    """Of the points that are drawn within the span."""
    at = np.asarray(trace["x"])
    inside = (at >= (span.start_ns - start_ns) / _NS) & (at <= (span.end_ns - start_ns) / _NS)
    return shown(float(np.asarray(trace["y"])[inside].mean()), "W") if inside.any() else "–"


def _figure(bars: list[Trace], lines: list[Trace], spans: Sequence[Span], start_ns: int, end_s: float) -> Figure:
    total = (_BARS_PX if bars else 0) + _POWER_PX
    share = _POWER_PX / total
    x = axis("Time since the first reading of idle power or the first request, s", anchor="y2",
             range=[-0.01 * end_s, 1.01 * end_s])  # fmt: skip
    requests = axis("Requests", autorange="reversed", domain=[min(1.0, share + 0.04), 1], showticklabels=False,
                    showgrid=False)  # fmt: skip
    drawn = layout(x, requests, height=total + 130, barmode="overlay", bargap=0)
    values = [value for line in lines for value in line["y"]]
    drawn["yaxis2"] = axis("Power, W", domain=[0, share], range=[0, 1.08 * max(values)], nticks=5)
    drawn["showlegend"] = True
    drawn["shapes"] = [_shade(span, start_ns) for span in spans]
    return {"data": [*bars, *lines], "layout": drawn}


def _shade(span: Span, start_ns: int) -> dict[str, Any]:
    return {
        "type": "rect",
        "xref": "x",
        "yref": "y2 domain",
        "x0": (span.start_ns - start_ns) / _NS,
        "x1": (span.end_ns - start_ns) / _NS,
        "y0": 0,
        "y1": 1,
        "fillcolor": GREY if span.kind == "idle" else "#0072b2",
        "opacity": 0.14 if span.kind == "idle" else 0.1,
        "line": {"width": 0},
        "layer": "below",
    }
