"""One row per request, spooled in append-only Arrow batches: a crash leaves a valid prefix."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

#: All stamps are CLOCK_MONOTONIC nanoseconds of the load host; null means that it never happened.
SCHEMA = pa.schema(
    [
        ("stage", pa.int16()),
        ("index", pa.int32()),
        ("shard", pa.int16()),  # which of several load processes sent it; null in a run that was not split
        ("warmup", pa.bool_()),  # load that is not measured: warm-up, or cool-down
        ("level", pa.float64()),  # the value of the stage's load
        ("group", pa.int32()),  # of prompts that share a prefix; null without one
        ("chain", pa.int32()),  # the conversation or task; null where requests do not wait for each other
        ("turn", pa.int16()),  # within the chain, from 0
        ("turns", pa.int16()),  # planned for the chain
        ("model", pa.string()),  # the model or adapter that the request named
        ("address", pa.string()),  # the one that was connected to; that of the proxy, where one is configured
        ("due_ns", pa.int64()),
        ("ready_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("connect_ns", pa.int64()),  # a duration; null on a reused connection
        ("headers_ns", pa.int64()),
        ("first_event_ns", pa.int64()),
        ("first_token_ns", pa.int64()),
        ("first_answer_ns", pa.int64()),
        ("last_token_ns", pa.int64()),
        ("end_ns", pa.int64()),
        ("outcome", pa.string()),
        ("detail", pa.string()),
        ("flags", pa.list_(pa.string())),
        ("http_status", pa.int16()),
        ("finish_reason", pa.string()),
        ("response_model", pa.string()),
        ("asked_input_tokens", pa.int32()),
        ("asked_output_tokens", pa.int32()),  # of all choices together
        ("reusable_tokens", pa.int32()),  # of the input: what an endless prefix cache could serve
        ("input_tokens", pa.int32()),
        ("cached_tokens", pa.int32()),
        ("output_tokens", pa.int32()),
        ("reasoning_tokens", pa.int32()),
        ("counted_tokens", pa.int32()),  # by the tokenizer, where one was given; beside the server's count
        ("token_source", pa.string()),  # usage | tokenizer | unknown
        ("events", pa.int32()),
        ("event_offsets_ns", pa.list_(pa.int64())),  # token events, relative to sent_ns; equal values: same read
        ("event_tokens", pa.list_(pa.int32())),  # tokens of each, only where the server tells them
        ("event_choices", pa.list_(pa.int16())),  # the choice of each; null when there was but one
        ("bytes_in", pa.int64()),
        ("retried", pa.bool_()),
        ("server_prompt_ms", pa.float64()),  # the server's own timings, where it tells them
        ("server_decode_ms", pa.float64()),
    ]
)

#: Columns of times on the clock of the host that took them.
STAMPS = (
    "due_ns",
    "ready_ns",
    "sent_ns",
    "headers_ns",
    "first_event_ns",
    "first_token_ns",
    "first_answer_ns",
    "last_token_ns",
    "end_ns",
)

_BATCH_ROWS = 256


class Spool:
    """Appends rows to an Arrow stream file; ``flush`` makes what was appended so far readable by others."""

    def __init__(self, path: Path, schema: pa.Schema = SCHEMA) -> None:
        self._schema = schema
        self._file = path.open("wb", buffering=0)
        self._writer = pa.ipc.new_stream(self._file, schema)
        self._rows: list[dict[str, Any]] = []

    def append(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self._rows:
            self._writer.write_batch(pa.RecordBatch.from_pylist(self._rows, schema=self._schema))
            self._rows.clear()

    def close(self) -> None:
        self.flush()
        self._writer.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_spool(source: Path | bytes, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Every whole batch before the first that is not, however the spool was cut off or damaged; an empty table when not
    even the schema is whole.
    """
    batches: list[pa.RecordBatch] = []
    data = source if isinstance(source, bytes) else source.read_bytes()
    try:
        reader = pa.ipc.open_stream(data)
        if all(reader.schema.names):  # a damaged name raises here
            schema = reader.schema
        while True:
            batch = reader.read_next_batch()
            batch.validate(full=True)  # offsets that lead outside of the batch would crash whoever reads them
            batches.append(batch)
    except (StopIteration, pa.ArrowException, OSError, UnicodeDecodeError):
        return pa.Table.from_batches(batches, schema=schema)


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, compression="zstd")
