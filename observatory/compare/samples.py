"""From raw request rows to one array per metric. Good requests only; warm-up left out."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from observatory.compare.stages import FloatArray

_NS_PER_MS = 1e6

#: Metrics that ``stage_samples`` gives.
SAMPLED = ("ttft_ms", "tpot_ms", "event_gap_ms", "interactivity_tokens_per_s", "e2e_ms")


def good_rows(rows: pa.Table, stage: int) -> pa.Table:
    """Rows of requests of the stage that ended well, without warm-up."""
    keep = pc.and_(pc.equal(rows["stage"], stage), pc.equal(rows["outcome"], "ok"))
    return rows.filter(pc.and_(keep, pc.invert(pc.fill_null(rows["warmup"], False))))


def stage_samples(rows: pa.Table, stage: int) -> dict[str, FloatArray]:
    """Metric -> its values in the metric's unit, missing ones left out (rows as in runners/load/records.py)."""
    good = good_rows(rows, stage)
    first, last, sent = good["first_token_ns"], good["last_token_ns"], good["sent_ns"]
    tokens_after_first = _floats(good["output_tokens"]) - 1
    decode_ms = _floats(pc.subtract(last, first)) / _NS_PER_MS
    measurable = (tokens_after_first >= 1) & (decode_ms > 0)
    tpot_ms = decode_ms[measurable] / tokens_after_first[measurable]
    return {
        "ttft_ms": _present(_floats(pc.subtract(first, sent)) / _NS_PER_MS),
        "tpot_ms": tpot_ms,
        "event_gap_ms": event_gaps_ms(good),
        "interactivity_tokens_per_s": 1e3 / tpot_ms,
        "e2e_ms": _present(_floats(pc.subtract(last, sent)) / _NS_PER_MS),
    }


def event_gaps_ms(rows: pa.Table) -> FloatArray:
    """Gaps between consecutive token events of the same request."""
    offsets = rows["event_offsets_ns"]
    lengths = _floats(pc.fill_null(pc.list_value_length(offsets), 0)).astype(int)
    stamps = np.asarray(pc.list_flatten(offsets).to_numpy(), dtype=np.float64)
    starts = np.cumsum(lengths[lengths > 0])[:-1]
    gaps: FloatArray = np.delete(np.diff(stamps), starts - 1) / _NS_PER_MS
    return gaps


def _floats(column: Any) -> FloatArray:
    """Nulls become NaN, within this module only."""
    return np.asarray(pc.cast(column, pa.float64(), safe=False).to_numpy(), dtype=np.float64)


def _present(values: FloatArray) -> FloatArray:
    present: FloatArray = values[np.isfinite(values)]
    return present
