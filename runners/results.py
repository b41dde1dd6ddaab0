"""What a run and the merging of its shards share: energy of windows, and the files that they leave."""

import errno
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from runners.load.energy_use import EnergyOf
from runners.load.records import write_parquet
from runners.load.rows import Window
from runners.load.summary import Ledger, LedgerOf
from runners.power.energy import mean_power_w, window_ledger
from runners.spec import Account


def ledgers(samples: pa.Table, power: dict[str, Any], account: Account) -> LedgerOf:
    """The energy ledger of a window; ``power`` is the account of the summary."""

    def ledger_of(window: Window) -> Ledger | None:
        if not power["devices"]:
            return None
        return window_ledger(
            samples,
            window.start_ns,
            window.end_ns,
            description=power,
            pue=account.pue,
            pue_source=account.pue_source,
            idle_w=power["idle_w"],
        )

    return ledger_of


def energies(samples: pa.Table, power: dict[str, Any]) -> EnergyOf:
    """Joules of all sampled devices between two moments."""

    def energy_of(start_ns: int, end_ns: int) -> float | None:
        mean_w = mean_power_w(samples, start_ns, end_ns, description=power)
        return None if mean_w is None else mean_w * (end_ns - start_ns) / 1e9

    return energy_of


def write_results(out: Path, tables: dict[str, pa.Table], summary: dict[str, Any]) -> None:
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
