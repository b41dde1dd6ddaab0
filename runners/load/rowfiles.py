"""Rows of requests or samples, read a part at a time: what is held does not grow with the file."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runners.load.records import SCHEMA, Intact

_BATCH_ROWS = 256
_COPIED_TOGETHER = 64
#: A row group of Parquet is written when it has so many bytes in memory, or so many rows.
_GROUP_BYTES, _GROUP_ROWS = 2_000_000, 65_536


class Rows(ABC):
    """Rows that can be gone through as often as needed, in the same order each time."""

    schema: pa.Schema
    num_rows: int

    @abstractmethod
    def batches(self, names: Sequence[str] | None = None, stage: int | None = None) -> Iterator[pa.RecordBatch]:
        """A few hundred rows at a time: those columns, or all, in any order; of one stage, or all. Raises OSError,
        pa.ArrowException.
        """

    def columns(self, names: Sequence[str] | None = None, stage: int | None = None) -> pa.Table:
        """Those columns of all rows, copied, so that nothing else of the rows is held."""
        names = self.schema.names if names is None else names
        schema = pa.schema([self.schema.field(name) for name in names])
        copied: list[pa.RecordBatch] = []
        waiting: list[pa.RecordBatch] = []
        for batch in self.batches(names, stage):
            waiting.append(batch.select(names))
            if len(waiting) == _COPIED_TOGETHER:
                copied += _copied(waiting, schema)
                waiting.clear()
        return pa.Table.from_batches([*copied, *_copied(waiting, schema)], schema)


def _copied(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[pa.RecordBatch]:
    doubled = [*batches, *(batch.slice(0, 0) for batch in batches[:1])]  # one batch alone would not be copied
    return list(pa.Table.from_batches(doubled, schema).combine_chunks().to_batches())


class TableRows(Rows):
    """Rows in memory."""

    def __init__(self, table: pa.Table) -> None:
        self.schema, self.num_rows = table.schema, table.num_rows
        self._table = table

    def batches(self, names: Sequence[str] | None = None, stage: int | None = None) -> Iterator[pa.RecordBatch]:
        yield from self._of(names, stage).to_batches(max_chunksize=_BATCH_ROWS)

    def columns(self, names: Sequence[str] | None = None, stage: int | None = None) -> pa.Table:
        return self._of(names, stage)

    def _of(self, names: Sequence[str] | None, stage: int | None) -> pa.Table:
        table = self._table if names is None else self._table.select(list(names))
        return table if stage is None else table.filter(pc.equal(self._table["stage"], stage))


class SpoolRows(Rows):
    """Every whole batch of a spool before the first that is not, however it was cut off or damaged."""

    def __init__(self, path: Path, schema: pa.Schema = SCHEMA) -> None:
        """Raises OSError when there is no such file."""
        self._path = path
        self._places: list[tuple[int, int, int]] = []  # byte, first and last stage
        self.num_rows = 0
        with pa.OSFile(str(path)) as file:
            found = Intact(file, schema)
            self.schema = found.schema
            for at, batch in found:
                self._places.append((at, *_stages(batch)))
                self.num_rows += batch.num_rows

    def batches(self, names: Sequence[str] | None = None, stage: int | None = None) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self._path)) as file:
            for at, first, last in self._places:
                if stage is not None and not first <= stage <= last:
                    continue
                file.seek(at)
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(file), self.schema)
                yield _picked(batch, names, None if first == last else stage)


def _stages(batch: pa.RecordBatch) -> tuple[int, int]:
    if "stage" not in batch.schema.names or not batch.num_rows:
        return 0, 0
    found = pc.min_max(batch["stage"])
    return found["min"].as_py(), found["max"].as_py()


def _picked(batch: pa.RecordBatch, names: Sequence[str] | None, stage: int | None) -> pa.RecordBatch:
    own = batch if stage is None else batch.filter(pc.equal(batch["stage"], stage))
    return own if names is None else own.select(list(names))


class ParquetRows(Rows):
    """A Parquet file, by its path or opened for reading."""

    def __init__(self, source: Path | IO[bytes]) -> None:
        """Raises OSError, pa.ArrowInvalid when it is not whole."""
        self._file = pq.ParquetFile(source)
        self.schema, self.num_rows = self._file.schema_arrow, self._file.metadata.num_rows

    def batches(self, names: Sequence[str] | None = None, stage: int | None = None) -> Iterator[pa.RecordBatch]:
        wanted = None if names is None else [*names, *(["stage"] if stage is not None and "stage" not in names else [])]
        groups = [group for group in range(self._file.num_row_groups) if self._may_hold(group, stage)]
        for batch in self._file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=wanted):
            yield _picked(batch, names, stage)

    def _may_hold(self, group: int, stage: int | None) -> bool:
        if stage is None:
            return True
        column = self._file.metadata.row_group(group).column(self.schema.get_field_index("stage"))
        known = column.statistics if column.path_in_schema == "stage" else None
        return known is None or not known.has_min_max or known.min <= stage <= known.max


def as_rows(rows: Rows | pa.Table) -> Rows:
    return rows if isinstance(rows, Rows) else TableRows(rows)


def groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The batches put together to row groups of a sensible size."""
    held: list[pa.RecordBatch] = []
    size = count = 0
    for batch in batches:
        held.append(batch)
        size, count = size + batch.nbytes, count + batch.num_rows
        if size >= _GROUP_BYTES or count >= _GROUP_ROWS:
            yield pa.Table.from_batches(held, schema)
            held, size, count = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)


def write_parquet(
    rows: Rows | pa.Table, path: Path, change: Callable[[pa.Table], pa.Table] = lambda group: group
) -> None:
    """Each group of rows as ``change`` makes it. Raises OSError."""
    rows = as_rows(rows)
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        for group in groups(rows.batches(), rows.schema):
            writer.write_table(change(group))
