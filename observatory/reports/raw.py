"""Raw rows of a run, a part at a time."""

from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models.fields.files import FieldFile


class NoRows(Exception):
    """No raw rows are kept, or their file is gone."""


def opened(file: FieldFile) -> BinaryIO:
    """The stored file, to be read and closed by the caller. Raises NoRows."""
    if not file.name:
        raise NoRows
    try:
        return cast(BinaryIO, file.storage.open(file.name, "rb"))
    except OSError:
        raise NoRows from None


def part(file: FieldFile, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    """Rows ``offset`` to ``offset + limit`` of a stored Parquet file, and how many it holds. Raises NoRows.

    Only the row groups that hold them are read.
    """
    with opened(file) as source:
        try:
            return _part(pq.ParquetFile(source), offset, limit)
        except (OSError, pa.ArrowInvalid):
            raise NoRows from None


def _part(stored: pq.ParquetFile, offset: int, limit: int) -> tuple[list[dict[str, Any]], int]:
    groups: list[int] = []
    first, start = offset, 0
    for index in range(stored.num_row_groups):
        end = start + stored.metadata.row_group(index).num_rows
        if start < offset + limit and end > offset:
            if not groups:
                first = offset - start
            groups.append(index)
        start = end
    if not groups:
        return [], stored.metadata.num_rows
    return stored.read_row_groups(groups).slice(first, limit).to_pylist(), stored.metadata.num_rows
