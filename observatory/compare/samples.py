"""From raw request rows to one array per metric, by the instrument's own definitions."""

import pyarrow as pa
import pyarrow.compute as pc

from observatory.compare.stages import FloatArray
from runners.load.rows import StageRows


def stage_rows(rows: pa.Table, stage: int) -> StageRows:
    return StageRows(rows.filter(pc.equal(rows["stage"], stage)))


def stage_samples(rows: StageRows) -> dict[str, FloatArray]:
    """Metric -> its values over good requests (or their gaps), in the metric's unit; missing values left out."""
    ttft_ms, _ = rows.between_ms("sent_ns", "first_token_ns")
    e2e_ms, _ = rows.between_ms("sent_ns", "last_token_ns")
    tpot_ms, _ = rows.tpot_ms
    return {
        "ttft_ms": ttft_ms,
        "tpot_ms": tpot_ms,
        "itl_ms": rows.gaps.token_ms,
        "interactivity_tokens_per_s": 1e3 / tpot_ms[tpot_ms > 0],
        "e2e_ms": e2e_ms,
    }
