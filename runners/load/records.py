"""One row per request, spooled in append-only Arrow batches: a crash leaves a valid prefix."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

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

#: Writing them takes half a millisecond, in which no answer is read.
_BATCH_ROWS = 64


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


_DAMAGED = (pa.ArrowException, OSError, UnicodeDecodeError)


class Intact:
    """Every whole batch of a spool before the first that is not, however it was cut off or damaged, and the byte at
    which each begins; nothing, and the ``schema`` that was given, when not even its schema is whole.
    """

    def __init__(self, source: pa.NativeFile, schema: pa.Schema = SCHEMA) -> None:
        self.schema = schema
        self._source, self._reader = source, None
        with suppress(*_DAMAGED):
            reader = pa.ipc.open_stream(source)
            if all(reader.schema.names):  # a damaged name raises here
                self.schema, self._reader = reader.schema, reader

    def __iter__(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        while self._reader is not None:
            at = self._source.tell()
            try:
                batch = self._reader.read_next_batch()
                batch.validate(full=True)  # offsets that lead outside of the batch would crash whoever reads them
            except (StopIteration, *_DAMAGED):
                return
            yield at, batch


def read_spool(source: Path | bytes, schema: pa.Schema = SCHEMA) -> pa.Table:
    """All that is intact of a spool, in memory."""
    found = Intact(pa.BufferReader(source if isinstance(source, bytes) else source.read_bytes()), schema)
    return pa.Table.from_batches([batch for _, batch in found], schema=found.schema)
