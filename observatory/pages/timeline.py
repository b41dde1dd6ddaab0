"""The requests of a stage as bars over time, with throughput, requests in flight and power in strips below."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from observatory.compare.stages import FloatArray
from observatory.pages.charts import FAILURE, GREY, Chart, Figure, Trace, axis, colour, layout, plain, shown
from observatory.pages.power_lines import power_lines, seconds_since
from runners.load.rows import StageRows

MAX_BARS = 240
_MAX_FAILURES, _SLOWEST = 60, 10
_BINS = 150
_NS = 1e9
_HOVER = "%{customdata}<extra></extra>"

_STAMPS = ("due_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns")


def request_timeline(
    rows: pa.Table,
    stage: int,
    power: pa.Table | None = None,
    devices: Mapping[str, str] | None = None,
    modelled: Collection[str] = (),
) -> Chart | None:
    """``devices``: names of the power devices by id; ``modelled``: ids of those whose power is worked out. None when
    no request of the stage was sent.
    """
    sent = rows.filter(pc.and_(pc.equal(rows["stage"], stage), pc.is_valid(rows["sent_ns"]))).sort_by("sent_ns")
    if not sent.num_rows:
        return None
    start_ns = min(pc.min(sent["sent_ns"]).as_py(), pc.min(sent["due_ns"]).as_py() or np.inf)
    times = stamps(sent, start_ns)
    end_s = float(np.nanmax(np.fmax(times["end_ns"], times["sent_ns"])))
    edges = np.linspace(0, max(end_s, 1e-3), _BINS + 1)
    picked = to_draw(sent, times)
    strips = [
        *_strip(edges, _throughput(sent, start_ns, edges), "Output throughput", "tok/s", "y2"),
        *_strip(edges, _in_flight(times, edges), "In flight", "requests", "y3"),
        *(power_lines(power, start_ns, (0, end_s), devices or {}, modelled, "y4") if power is not None else []),
    ]
    traces = request_bars(sent.take(picked), {name: values[picked] for name, values in times.items()}) + strips
    note = (
        "" if len(picked) == sent.num_rows else
        f"{len(picked)} of {sent.num_rows} requests are drawn: every failure, the slowest, and the rest evenly "
        "by time of sending. The strips count all."
    )  # fmt: skip
    return Chart(_figure(traces, len(picked), end_s), _TABLE, _table(sent.take(picked), times, picked), note)


def stamps(sent: pa.Table, start_ns: int) -> dict[str, FloatArray]:
    """Seconds since ``start_ns`` by name of the stamp; NaN when missing."""
    return {name: seconds_since(sent[name], start_ns) for name in _STAMPS}


def to_draw(sent: pa.Table, times: Mapping[str, FloatArray]) -> list[int]:
    """Positions of the requests to draw, in order of sending."""
    count = sent.num_rows
    if count <= MAX_BARS:
        return list(range(count))
    failed = np.flatnonzero(np.asarray(pc.not_equal(sent["outcome"], "ok")))[:_MAX_FAILURES]
    duration = np.nan_to_num(times["end_ns"] - times["sent_ns"])
    slowest = np.argsort(duration)[-_SLOWEST:]
    rest = np.linspace(0, count - 1, MAX_BARS - len(failed) - _SLOWEST).astype(int)
    return sorted({int(position) for part in (failed, slowest, rest) for position in part})


def request_bars(rows: pa.Table, times: Mapping[str, FloatArray]) -> list[Trace]:
    end = np.fmax(times["end_ns"], times["sent_ns"])
    ok = np.asarray(pc.equal(rows["outcome"], "ok"))
    hover = [_hover(row, *parts) for row, *parts in zip(rows.to_pylist(), *_parts(times), strict=True)]
    due = np.where(np.isnan(times["due_ns"]), times["sent_ns"], times["due_ns"])
    parts = (
        ("due to sent", due, times["sent_ns"], GREY, np.ones_like(ok)),
        ("sent to first token", times["sent_ns"], times["first_token_ns"], colour(1), ok),
        ("first to last token", times["first_token_ns"], times["last_token_ns"], colour(0), ok),
        ("did not end well", times["sent_ns"], end, FAILURE, ~ok),
    )
    return [_part(name, start, stop, paint, shown_for, hover) for name, start, stop, paint, shown_for in parts
            if shown_for.any()]  # fmt: skip


def _part(name: str, start: FloatArray, stop: FloatArray, paint: str, wanted: Any, hover: Sequence[str]) -> Trace:
    keep = np.flatnonzero(wanted & np.isfinite(start) & np.isfinite(stop))
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": keep.tolist(),
        "base": start[keep].tolist(),
        "x": (stop - start)[keep].tolist(),
        "width": 0.8,
        "marker": {"color": paint, "line": {"width": 0}},
        "customdata": [hover[position] for position in keep.tolist()],
        "hovertemplate": _HOVER,
    }


def _parts(times: Mapping[str, FloatArray]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Milliseconds from due to sent, to the first token, and from the first to the last token; NaN when missing."""
    return (
        1e3 * (times["sent_ns"] - times["due_ns"]),
        1e3 * (times["first_token_ns"] - times["sent_ns"]),
        1e3 * (times["last_token_ns"] - times["first_token_ns"]),
    )


def _ms(value: float) -> str:
    return shown(float(value) if np.isfinite(value) else None, "ms")


def _hover(row: Mapping[str, Any], lag_ms: float, ttft_ms: float, decode_ms: float) -> str:
    tokens = row["output_tokens"]
    return (
        f"request {row['index']}, {plain(row['outcome'])}<br>due to sent {_ms(lag_ms)}"
        f"<br>sent to first token {_ms(ttft_ms)}<br>first to last token {_ms(decode_ms)}"
        f"<br>{'–' if tokens is None else tokens} output tokens"
    )


_TABLE = ("Request", "Outcome", "Sent", "Due to sent", "TTFT", "First to last token", "Output tokens")


def _table(rows: pa.Table, times: Mapping[str, FloatArray], picked: Sequence[int]) -> list[list[str]]:
    lag, ttft, decode = (part[picked] for part in _parts(times))
    sent_s = times["sent_ns"][picked]
    return [
        [
            str(row["index"]),
            row["outcome"],
            f"{sent_s[i]:.3f} s",
            _ms(lag[i]),
            _ms(ttft[i]),
            _ms(decode[i]),
            "–" if row["output_tokens"] is None else str(row["output_tokens"]),
        ]
        for i, row in enumerate(rows.to_pylist())
    ]


def _throughput(sent: pa.Table, start_ns: int, edges: FloatArray) -> FloatArray:
    """Output tokens per second by bin."""
    _, stamps_ns, tokens = StageRows(sent).token_events
    counted, _ = np.histogram((stamps_ns - start_ns) / _NS, bins=edges, weights=tokens)
    rate: FloatArray = counted / (edges[1] - edges[0])
    return rate


def _in_flight(times: Mapping[str, FloatArray], edges: FloatArray) -> FloatArray:
    """Mean number of requests in flight by bin."""
    start = times["sent_ns"]
    end = np.where(np.isnan(times["end_ns"]), edges[-1], times["end_ns"])
    busy = np.array([np.clip(edge - start, 0, np.maximum(end - start, 0)).sum() for edge in edges])
    mean: FloatArray = np.diff(busy) / (edges[1] - edges[0])
    return mean


def _strip(edges: FloatArray, values: FloatArray, name: str, unit: str, yaxis: str) -> list[Trace]:
    middles = (edges[:-1] + edges[1:]) / 2
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "x": middles.tolist(),
            "y": values.tolist(),
            "yaxis": yaxis,
            "line": {"shape": "hvh", "width": 1.5, "color": colour(2 if yaxis == "y2" else 3)},
            "customdata": [
                f"{x:.2f} s<br>{name} {shown(float(y), unit)}" for x, y in zip(middles, values, strict=True)
            ],
            "hovertemplate": _HOVER,
            "showlegend": False,
        }
    ]


def _figure(traces: list[Trace], bars: int, end_s: float) -> Figure:
    with_power = any(trace.get("yaxis") == "y4" for trace in traces)
    strip_px, gap_px, bars_px = 86, 22, max(140, min(520, 6 * bars))
    strips = 3 if with_power else 2
    total_px = bars_px + strips * (strip_px + gap_px)
    domains = [
        [
            1 - (bars_px + (i + 1) * (gap_px + strip_px)) / total_px,
            1 - (bars_px + i * strip_px + (i + 1) * gap_px) / total_px,
        ]
        for i in range(strips)
    ]
    x = axis("Time since the stage began, s", range=[-0.01 * end_s, 1.01 * end_s], anchor=f"y{strips + 1}")
    requests = axis(
        "Requests", autorange="reversed", domain=[1 - bars_px / total_px, 1], showticklabels=False, showgrid=False
    )
    drawn = layout(x, requests, height=total_px + 90, barmode="overlay", bargap=0)
    titles = ("Output,<br>tok/s", "In flight,<br>requests", "Power, W")
    for i in range(strips):
        drawn[f"yaxis{i + 2}"] = axis(titles[i], domain=[max(0.0, domains[i][0]), domains[i][1]], nticks=4)
    return {"data": traces, "layout": drawn}
