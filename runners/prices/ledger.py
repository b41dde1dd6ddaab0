"""What runs of the command line have set aside and spent, in a file of one JSON object a line.

A reserve counts until it is settled; one whose run never came to its end counts in full.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

import orjson

from runners.strict_json import SpecError

#: Where the file is, in place of the account's own folder.
FILE_VARIABLE = "MONEY_FILE"
MONTH_VARIABLE = "MONEY_MONTH_USD"
MONTH_USD = 100.0


def default_path() -> Path:
    asked = os.environ.get(FILE_VARIABLE)
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(asked) if asked else Path(state) / "inference-observatory" / "spent.jsonl"


def month_usd() -> float:
    """What a month may cost: ``MONEY_MONTH_USD``, else 100 $. Raises SpecError."""
    text = os.environ.get(MONTH_VARIABLE, "")
    try:
        return float(text) if text else MONTH_USD
    except ValueError:
        raise SpecError(f"{MONTH_VARIABLE}: {text!r} is no amount; write dollars such as 100") from None


def reserve(run: str, usd: Decimal, most_usd: Decimal, path: Path | None = None) -> None:
    """Sets ``usd`` aside for a run. Raises SpecError when the month's money does not reach."""
    with _locked(path or default_path()) as file:
        left = most_usd - _spent(file)
        if usd > left:
            raise SpecError(
                f"--month-usd: the run may cost up to ${usd} and ${max(left, Decimal(0)):.4f} are left of this month's "
                f"${most_usd:g}: ask for less, give --month-usd or {MONTH_VARIABLE} more, or wait for the next month"
            )
        _append(file, {"run": run, "at": datetime.now(UTC).isoformat(), "reserved_usd": str(usd)})


def settle(run: str, usd: Decimal, path: Path | None = None) -> None:
    """What the run cost in the end, in place of its reserve."""
    with _locked(path or default_path()) as file:
        _append(file, {"run": run, "at": datetime.now(UTC).isoformat(), "settled_usd": str(usd)})


def spent_this_month(path: Path | None = None) -> Decimal:
    """Settled where a run has ended, reserved where it has not; by when it was reserved, in UTC."""
    with _locked(path or default_path()) as file:
        return _spent(file)


@contextmanager
def _locked(path: Path) -> Iterator[IO[bytes]]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("a+b")
    except OSError as error:
        raise SpecError(
            f"{FILE_VARIABLE}: {path} cannot be written ({error.strerror}); it keeps what paid runs have cost: name "
            "another file there"
        ) from None
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file


def _append(file: IO[bytes], entry: dict[str, Any]) -> None:
    file.write(orjson.dumps(entry) + b"\n")
    file.flush()
    os.fsync(file.fileno())


def _spent(file: IO[bytes]) -> Decimal:
    file.seek(0)
    month = f"{datetime.now(UTC):%Y-%m}"
    usd: dict[str, Decimal] = {}
    for line in file:
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue  # the end of a line that a full disk or a power cut left
        if "reserved_usd" in entry and entry["at"].startswith(month):
            usd[entry["run"]] = Decimal(entry["reserved_usd"])
        elif entry["run"] in usd and "settled_usd" in entry:
            usd[entry["run"]] = Decimal(entry["settled_usd"])
    return sum(usd.values(), Decimal(0))
