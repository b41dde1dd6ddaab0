"""What a run and the merging of its shards share: the files that they leave."""

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from runners.load.rowfiles import Rows, write_parquet


def write_results(out: Path, tables: Mapping[str, Rows | pa.Table], summary: dict[str, Any]) -> None:
    """Raises OSError."""
    for name, table in tables.items():
        write_parquet(table, out / f"{name}.parquet")
    (out / "summary.json").write_bytes(orjson.dumps(summary, option=orjson.OPT_INDENT_2))


def write_failure(error: OSError, out: Path, rows: int = 0) -> tuple[str, str]:
    """(code, words) for results that could not be written."""
    if error.errno == errno.ENOSPC:
        code, what = "disk_full", "the disk is full"
    else:
        code, what = "write_error", f"writing failed ({error.strerror})"
    kept = f"{rows} rows written before are kept" if rows else "nothing was measured"
    return (
        code,
        f"{what} at {out}: the run was stopped and {kept}. Free space or choose another folder, then run again.",
    )
