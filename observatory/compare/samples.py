"""From raw request rows to one array per metric. Good requests only; warm-up left out."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from observatory.compare.stages import FloatArray

IntArray = npt.NDArray[np.int64]

_NS_PER_MS = 1e6


def good_rows(rows: pa.Table, stage: int) -> pa.Table:
    """Rows of requests of the stage that ended well, without warm-up."""
    keep = pc.and_(pc.equal(rows["stage"], stage), pc.equal(rows["outcome"], "ok"))
    return rows.filter(pc.and_(keep, pc.invert(pc.fill_null(rows["warmup"], False))))


def stage_samples(rows: pa.Table, stage: int, *, whole: bool = False) -> dict[str, FloatArray]:
    """Metric -> its values in the metric's unit (rows as in runners/load/records.py).

    Missing values are left out; with ``whole`` they are NaN, so that there is one value a good request.
    """
    good = good_rows(rows, stage)
    ttft_ms = _span_ms(good, "sent_ns", "first_token_ns")
    e2e_ms = _span_ms(good, "sent_ns", "last_token_ns")
    tokens_after_first = _floats(good["output_tokens"]) - 1
    measurable = (tokens_after_first >= 1) & (e2e_ms > ttft_ms)
    tpot_ms = np.full(good.num_rows, np.nan)
    tpot_ms[measurable] = (e2e_ms - ttft_ms)[measurable] / tokens_after_first[measurable]
    per_request = {
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
        "interactivity_tokens_per_s": 1e3 / tpot_ms,
        "e2e_ms": e2e_ms,
    }
    if whole:
        return per_request
    return {name: values[np.isfinite(values)] for name, values in per_request.items()} | {
        "event_gap_ms": event_gaps_ms(good)
    }


def _span_ms(rows: pa.Table, start: str, end: str) -> FloatArray:
    return _floats(pc.subtract(rows[end], rows[start])) / _NS_PER_MS


def event_gaps_ms(rows: pa.Table) -> FloatArray:
    """Gaps between consecutive token events of the same request."""
    offsets = rows["event_offsets_ns"]
    lengths = _floats(pc.fill_null(pc.list_value_length(offsets), 0)).astype(int)
    stamps = np.asarray(pc.list_flatten(offsets).to_numpy(), dtype=np.float64)
    starts = np.cumsum(lengths[lengths > 0])[:-1]
    gaps: FloatArray = np.delete(np.diff(stamps), starts - 1) / _NS_PER_MS
    return gaps


def token_events(rows: pa.Table) -> tuple[IntArray, FloatArray]:
    """Absolute stamps (ns) of all token events, and the output tokens that each stands for: a request's tokens are
    spread evenly over its events.
    """
    counts = _floats(pc.fill_null(pc.list_value_length(rows["event_offsets_ns"]), 0)).astype(np.int64)
    offsets = np.asarray(pc.list_flatten(rows["event_offsets_ns"]).to_numpy(), dtype=np.int64)
    sent = np.asarray(pc.fill_null(rows["sent_ns"], 0).to_numpy(), dtype=np.int64)
    tokens = _floats(pc.fill_null(rows["output_tokens"], 0))
    share = tokens / np.maximum(counts, 1)
    return offsets + np.repeat(sent, counts), np.repeat(share, counts)


def _floats(column: Any) -> FloatArray:
    """Nulls become NaN, within this module only."""
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)
