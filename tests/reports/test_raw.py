from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from observatory.reports import raw
from observatory.runs.models import Run


@pytest.fixture
def stored(tmp_path: Path) -> Run:
    """100 rows in row groups of 30; nothing is saved to a database."""
    pq.write_table(pa.table({"i": list(range(100))}), tmp_path / "r.parquet", row_group_size=30)
    return Run(requests_file="r.parquet")


@pytest.mark.parametrize(
    ("offset", "limit", "first", "length"),
    [
        (0, 10, 0, 10),
        (25, 10, 25, 10),
        (30, 30, 30, 30),
        (29, 62, 29, 62),
        (95, 10, 95, 5),
        (100, 10, None, 0),
        (500, 1, None, 0),
    ],
)
def test_any_part_of_the_rows_can_be_read(stored: Run, offset: int, limit: int, first: int | None, length: int) -> None:
    rows, count = raw.part(stored.requests_file, offset, limit)
    assert (len(rows), count) == (length, 100)
    assert [row["i"] for row in rows] == list(range(offset, offset + length))
    assert (rows[0]["i"] if rows else None) == first


def test_no_file_is_no_rows() -> None:
    with pytest.raises(raw.NoRows):
        raw.part(Run().requests_file, 0, 1)
    with pytest.raises(raw.NoRows):
        raw.opened(Run(requests_file="gone.parquet").requests_file)
