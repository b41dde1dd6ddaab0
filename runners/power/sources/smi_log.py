"""A log of ``nvidia-smi --query-gpu=... --format=csv -lms N``, read when the run is over.

Columns that are not known are refused: a renamed field must not pass for a missing one. Driver 535 split power.draw
into power.draw.average and power.draw.instant; where both are there each keeps its own column.
"""

import csv
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from zoneinfo import ZoneInfo

from runners.meters import SmiLog
from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note, SourceError
from runners.power.samples import Row
from runners.power.sources.nvml_sensors import gain

_NS = 1_000_000_000
_FORM = "%Y/%m/%d %H:%M:%S.%f"
_HOW = "nvidia-smi --query-gpu=timestamp,uuid,name,power.draw --format=csv -lms 100"
#: Column of samples, factor, unit. The first that is there counts.
_READ: dict[str, tuple[str, float, str]] = {
    "power.draw.average": ("power_mw", 1e3, "W"),
    "power.draw": ("power_mw", 1e3, "W"),
    "power.draw.instant": ("power_instant_mw", 1e3, "W"),
    "enforced.power.limit": ("power_limit_mw", 1e3, "W"),
    "power.limit": ("power_limit_mw", 1e3, "W"),
    "temperature.gpu": ("temperature_c", 1.0, ""),
    "utilization.gpu": ("utilisation_pct", 1.0, "%"),
    "clocks.sm": ("clock_mhz", 1.0, "MHz"),
    "clocks.current.sm": ("clock_mhz", 1.0, "MHz"),
}
_IDS = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index")
_NAMES = ("name", "gpu_name")
#: Known, and of no use here.
_PASSED_OVER = (
    "count", "driver_version", "pstate", "serial", "gpu_serial", "fan.speed", "compute_mode", "mig.mode.",
    "memory.", "utilization.memory", "temperature.memory", "clocks.", "clocks_", "pcie.", "power.", "ecc.",
    "vbios_version", "persistence_mode", "display_", "enforced.",
)  # fmt: skip
_POWER_NAMES = ("power.draw", "power.draw.average", "power.draw.instant")
_NOTHING = ("[n/a]", "n/a", "[not supported]", "[unknown error]", "[gpu requires reset]", "")


@dataclass(frozen=True)
class _Column:
    name: str
    unit: str


@dataclass
class _Log:
    """Rows of each device, times in ns since 1970."""

    columns: list[_Column]
    rows: dict[str, list[Row]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    cut_off: bool = False


class SmiLogSource:
    """``offset_ns``: time since 1970 less CLOCK_MONOTONIC of the host whose samples these join."""

    name = "csv"
    period_ms = 1e3

    def __init__(self, meter: SmiLog, offset_ns: int) -> None:
        self.notes: list[Note] = []
        self._meter, self._offset_ns = meter, offset_ns
        self._log: _Log | None = None
        self._tried = False

    def devices(self) -> list[Device]:
        """Those of the file as it was when it was last read; now at first."""
        if not self._tried:
            self._tried = True
            try:
                self._load()
            except SourceError as error:
                self.notes.append(Note("csv_unreadable", str(error)))
        return [self._device(key) for key in (self._log.rows if self._log else ())]

    def read(self) -> list[Row]:
        """Nothing: the file is read when its time has passed."""
        return []

    def close(self) -> None:
        """Nothing is held open."""

    def between(self, start_ns: int, end_ns: int) -> list[Row]:
        self._tried = True
        log = self._load()
        rows = [row for of_device in log.rows.values() for row in of_device if start_ns <= row["t_ns"] <= end_ns]
        if not rows:
            stamps = [row["t_ns"] for of_device in log.rows.values() for row in of_device]
            span = f"{self._clock(min(stamps))} to {self._clock(max(stamps))} UTC" if stamps else "no time at all"
            raise SourceError(
                f"csv: {self._meter.file} has nothing from {self._clock(start_ns)} to {self._clock(end_ns)} UTC: it "
                f"covers {span}, with its times taken as {self._meter.zone}. Is the zone right?"
            )
        return sorted(rows, key=lambda row: row["t_ns"])

    def _load(self) -> _Log:
        try:
            with Path(self._meter.file).open(newline="", encoding="utf-8-sig") as file:
                self._log = _parse(self._meter, csv.reader(file, skipinitialspace=True), self._offset_ns)
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(f"csv: {self._meter.file} cannot be read: {error}") from None
        text = f"The last line of {self._meter.file} is not whole: it is left out."
        self.notes = [Note("csv_cut_off", text)] if self._log.cut_off else []
        return self._log

    def _device(self, key: str) -> Device:
        assert self._log is not None  # noqa: S101
        names = {column.name for column in self._log.columns}
        told = next(name for name in ("power.draw.average", "power.draw", "power.draw.instant") if name in names)
        stamps = [row["t_ns"] for row in self._log.rows[key]]
        gaps_ms = [(b - a) / 1e6 for a, b in pairwise(stamps)]
        card = self._log.names.get(key, "NVIDIA GPU")
        low, high, origin = gain(card)
        return Device(
            id=key,
            name=card,
            layer=Layer.ACCELERATOR,
            source=self.name,
            mark=Mark.MEASURED,
            update_ms=max(100.0, median(gaps_ms)) if gaps_ms else 1e3,
            reading=f"nvidia-smi {told}, integrated",
            gain_low=low,
            gain_high=high,
            gain_source=origin,
            counter=False,
            power_column="power_instant_mw" if told == "power.draw.instant" else "power_mw",
            power_window_ms=100.0 if told == "power.draw.instant" else 1e3,
        )

    def _clock(self, t_ns: int) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime((t_ns + self._offset_ns) / _NS))


def _parse(meter: SmiLog, lines: Iterable[list[str]], offset_ns: int) -> _Log:
    """Raises SourceError that names the line and what to do."""
    log, last_ns = _Log([]), 0
    head: list[str] = []
    pending: tuple[int, list[str]] | None = None
    for number, cells in enumerate(lines, 1):
        if pending is not None:
            raise SourceError(f"csv: line {pending[0]} has {len(pending[1])} fields, not {len(head)}: {pending[1][:3]}")
        if not cells or cells == head:
            continue
        if not head:
            head, log.columns = cells, _columns(cells)
        elif len(cells) != len(head):
            pending = (number, cells)  # no fault at the very end, where the writer was stopped
        else:
            row = _row(log, cells, number)
            last_ns = _since_1970_ns(row.pop("told"), ZoneInfo(meter.zone), last_ns, number)
            log.rows.setdefault(row["device"], []).append({"t_ns": last_ns - offset_ns, **row})
    if not head:
        raise SourceError(f"csv: the file is empty. Write one with: {_HOW}")
    log.cut_off = pending is not None
    _check_devices(log)
    return log


def _columns(head: list[str]) -> list[_Column]:
    columns = [_Column(*_name_and_unit(cell)) for cell in head]
    names = [column.name for column in columns]
    for column in columns:
        known = column.name in (*_READ, *_IDS, *_NAMES, "timestamp")
        if not known and (column.name.startswith("power.draw") or not column.name.startswith(_PASSED_OVER)):
            raise SourceError(
                f"csv: the column {column.name!r} is not known here; used are timestamp, "
                f"{', '.join((*_IDS, *_NAMES, *_READ))}. The first line must be nvidia-smi's own header: {_HOW}"
            )
    if "timestamp" not in names or not any(name in names for name in _POWER_NAMES):
        raise SourceError(f"csv: the log needs the columns timestamp and power.draw. Write it with: {_HOW}")
    return columns


def _name_and_unit(cell: str) -> tuple[str, str]:
    name, _, unit = cell.strip().partition(" [")
    return name, unit.removesuffix("]")


def _row(log: _Log, cells: list[str], number: int) -> Row:
    values = {column.name: cell.strip() for column, cell in zip(log.columns, cells, strict=True)}
    device = next((values[name] for name in _IDS if values.get(name)), "gpu")
    name = next((values[name] for name in _NAMES if values.get(name)), "")
    if name:
        log.names[device] = name
    row: Row = {"device": device, "layer": Layer.ACCELERATOR.value, "told": values["timestamp"]}
    for told, (column, factor, unit) in _READ.items():
        if told in values and column not in row:
            value = _value(values[told], unit, told, number)
            row[column] = None if value is None else value * factor
    return row


def _value(cell: str, unit: str, name: str, number: int) -> float | None:
    """With its unit or without (``nounits``); another unit than the column's is refused."""
    if cell.lower() in _NOTHING:
        return None
    figure, _, told = cell.partition(" ")
    try:
        if told not in ("", unit):
            raise ValueError
        return float(figure)
    except ValueError:
        wanted = f"a number, with or without {unit}" if unit else "a number"
        raise SourceError(f"csv: line {number}: {name} is {cell!r}, not {wanted}") from None


def _since_1970_ns(told: str, zone: ZoneInfo, last_ns: int, number: int) -> int:
    """When clocks go back, an hour comes twice: of both the one that does not lie before the line before."""
    try:
        local = datetime.strptime(told, _FORM)
    except ValueError:
        raise SourceError(f"csv: line {number}: the time {told!r} is not of the form 2026/01/31 12:00:00.000") from None
    found = [int(local.replace(tzinfo=zone, fold=fold).timestamp() * 1e6) * 1000 for fold in (0, 1)]
    return found[1] if found[0] < last_ns - _NS and found[1] != found[0] else found[0]


def _check_devices(log: _Log) -> None:
    """Lines that nothing tells apart are one GPU only if their times differ. Raises SourceError."""
    stamps = [row["t_ns"] for row in log.rows.get("gpu", [])]
    close = sum(b - a < 5_000_000 for a, b in pairwise(stamps))
    if stamps and close > len(stamps) / 4:
        raise SourceError(f"csv: several lines at a time, and nothing says which GPU each is of. Add uuid: {_HOW}")
