"""Rows of planned requests that were never sent: written in batches, without building the requests."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runners.load.outcomes import Outcome
from runners.load.records import SCHEMA, Spool

_BATCH_ROWS = 4_096
_UNSENT = {
    "warmup": False,
    "outcome": str(Outcome.NOT_SENT),
    "flags": [],
    "token_source": "unknown",
    "events": 0,
    "event_offsets_ns": [],
    "bytes_in": 0,
    "retried": False,
}


class RequestSpool(Spool):
    """The spool of a run's requests, that takes whole batches too."""

    def append_batch(self, batch: pa.RecordBatch) -> None:
        self.flush()
        self._writer.write_batch(batch)


def unsent_batches(
    same: dict[str, Any], numbers: Sequence[int], due_ns: NDArray[np.int64], models: list[str], detail: str
) -> Iterator[pa.RecordBatch]:
    """``same`` are columns that all rows share; ``numbers`` those of the requests in their stage; ``due_ns`` holds 0
    where no time was planned. ``models`` is one for each row, or one for all.
    """
    common = same | _UNSENT | {"detail": detail}
    for start in range(0, len(due_ns), _BATCH_ROWS):
        due = due_ns[start : start + _BATCH_ROWS]
        index = np.array(numbers[start : start + len(due)], dtype=np.int32)
        told = {"index": pa.array(index), "due_ns": pa.array(due, mask=due == 0)}
        if len(models) > 1:
            told["model"] = pa.array(models[start : start + len(due)])
        columns = [
            told[field.name] if field.name in told else _repeated(common.get(field.name), field.type, len(due))
            for field in SCHEMA
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count)
