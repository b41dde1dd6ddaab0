"""The power sampler: a process of its own, so that neither load nor garbage collection bends its ticks.

``Sampler`` is the handle for the process that wants power sampled; ``python -m runners.power.sampler`` is the process.
"""

import argparse
import contextlib
import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

import runners
from runners.lifeline import die_with
from runners.load.records import Spool
from runners.power.boundary import holders
from runners.power.devices import Note, SourceError
from runners.power.options import add_power, arguments_of, power_of
from runners.power.samples import SCHEMA, Row
from runners.power.sources import check_name, describe, open_sources
from runners.power.sources.base import Archive, Source
from runners.spec import Power

SPOOL_NAME = "power.arrow"
DESCRIPTION_NAME = "power.json"

_READY_TIMEOUT_S = 60.0  # NVML takes seconds on hosts of many GPUs without persistence mode
_FRESH_S = 5.0
_MOST_SETTLE_S = 40.0
#: At most so long takes ``stop``: archives are asked in it.
STOP_TIMEOUT_S = _MOST_SETTLE_S + 20.0
_NS = 1_000_000_000


class Sampler:
    """Handle of a sampler process that writes power.arrow and power.json into a directory.

    With source "none" there is no process, and both files are as if nothing had been found.
    """

    def __init__(self, out: Path, process: "subprocess.Popen[bytes] | None", errors: IO[bytes]) -> None:
        self._out = out
        self._process = process
        self._errors = errors
        self._buffer = b""
        self._heard_s = 0.0
        self._latest: dict[str, float | None] = {}
        self._lost = ""
        self._stopped = False

    @classmethod
    def start(cls, power: Power, out: Path) -> Self:
        """Begins to sample into the directory ``out``; returns when it does. To be called from the main thread: the
        process ends with the thread that started it. Raises SourceError for a source that is not known.
        """
        check_name(power.source)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        if not power.sampled:
            Spool(out / SPOOL_NAME, SCHEMA).close()
            _write_json(out / DESCRIPTION_NAME, describe([]))
            return cls(out, None, errors)
        process = subprocess.Popen(
            _command(power, out),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=Path(runners.__file__).parents[1],
        )
        assert process.stdout is not None  # noqa: S101
        os.set_blocking(process.stdout.fileno(), False)
        sampler = cls(out, process, errors)
        sampler._await_ready()
        return sampler

    def describe(self) -> dict[str, Any]:
        """The "power" account of summary.json (docs/power.md), with a note once the sampler was lost."""
        self._notice_loss()
        try:
            description: dict[str, Any] = json.loads((self._out / DESCRIPTION_NAME).read_bytes())
        except (OSError, ValueError):
            description = describe([])
        if self._lost:
            description["notes"].append({"code": "sampler_lost", "text": self._lost})
        return description

    def latest_power_w(self) -> float | None:
        """Watts of all devices together, about a second old at most; None when not known. Never blocks."""
        return self._recent("power_w")

    def latest_temperature_c(self) -> float | None:
        """Of the hottest device, as ``latest_power_w``."""
        return self._recent("temperature_c")

    def pace(self, period_s: float | None) -> None:
        """Reads no more often than this from now on; None: as often as the instruments deserve."""
        if self._process is None or self._process.stdin is None or self._stopped:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.write(f"{period_s or 0}\n".encode())
            self._process.stdin.flush()

    def _recent(self, name: str) -> float | None:
        self._drain()
        self._notice_loss()
        fresh = not self._lost and time.monotonic() - self._heard_s < _FRESH_S
        return self._latest.get(name) if fresh else None

    def stop(self) -> None:
        """Ends sampling when the moment of the call is bracketed by readings: a second later at most, and an update of
        the slowest instrument where that takes longer.
        """
        if self._process is None or self._stopped:
            return
        self._notice_loss()
        self._stopped = True
        assert self._process.stdin is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            status = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if status != 0 and not self._lost:
            self._lost = self._loss_text(status)
        self._errors.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _await_ready(self) -> None:
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not self._heard_s and self._process.poll() is None and time.monotonic() < deadline:
            select.select([self._process.stdout], [], [], 0.5)
            self._drain()
        self._notice_loss()
        if not self._heard_s and not self._lost:
            self._lost = f"The power sampler did not start within {_READY_TIMEOUT_S:.0f} s."
            self._process.kill()

    def _drain(self) -> None:
        """Takes in the lines that the sampler has written so far."""
        if self._process is None or self._process.stdout is None or self._process.stdout.closed:
            return
        while chunk := self._process.stdout.read(65_536):
            self._buffer += chunk
        *lines, self._buffer = self._buffer.split(b"\n")
        if lines:
            self._heard_s, self._latest = time.monotonic(), json.loads(lines[-1])

    def _notice_loss(self) -> None:
        if self._process is None or self._stopped or self._lost:
            return
        status = self._process.poll()
        if status is not None:
            self._lost = self._loss_text(status)

    def _loss_text(self, status: int) -> str:
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return f"The power sampler ended early (status {status}): {last or 'it left no message'}."


def _command(power: Power, out: Path) -> list[str]:
    command = [sys.executable, "-m", "runners.power.sampler"]
    command += ["--out", str((out / SPOOL_NAME).absolute()), "--parent", str(os.getpid())]
    given = [(option, value) for option, value in arguments_of(power, "--source") if value is not None]
    return command + [str(part) for pair in given for part in pair]


def _write_json(path: Path, data: dict[str, Any]) -> None:
    """Whole or not at all, so that a reader never meets half a file."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(data, indent=1))
    draft.replace(path)


class _Orders:
    """What the parent wants, by standard input: a line with the shortest time between two reads of an instrument (s),
    or the end. That is ``settle_s()`` after standard input has closed, or at once by SIGTERM.
    """

    def __init__(self, settle_s: Callable[[], float]) -> None:
        self.pace_ns = 0
        self._settle_s = settle_s
        self._at_ns: int | None = None
        signal.signal(signal.SIGTERM, self._now)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to judge

    def wait(self, until_ns: int) -> bool:
        """Sleeps until then (CLOCK_MONOTONIC) or until the pace changes; False when sampling should end."""
        while (left_ns := until_ns - time.monotonic_ns()) > 0:
            if self._at_ns is not None:
                time.sleep(left_ns / _NS)
            elif select.select([sys.stdin], [], [], left_ns / _NS)[0] and self._heed(os.read(0, 4096)):
                break
        return self._at_ns is None or time.monotonic_ns() < self._at_ns

    def _heed(self, said: bytes) -> bool:
        """Whether the pace changed. The end is read at full pace."""
        before_ns = self.pace_ns
        if not said:
            self._at_ns = time.monotonic_ns() + int(self._settle_s() * _NS)
        self.pace_ns = int(float(said.split()[-1]) * _NS) if said.strip() else 0
        return self.pace_ns != before_ns

    def _now(self, _signal: int, _frame: FrameType | None) -> None:
        self._at_ns = 0


class _Schedule:
    """Ticks of one source at absolute times; a tick that was missed is skipped, not made up for."""

    def __init__(self, source: Source, start_ns: int) -> None:
        self.source = source
        self.due_ns = start_ns
        self._period_ns = int(source.period_ms * 1e6)

    def advance(self, now_ns: int, pace_ns: int) -> None:
        period_ns = max(self._period_ns, pace_ns)
        self.due_ns += period_ns * max(1, -((self.due_ns - now_ns) // period_ns))


class _Account:
    """power.json beside the samples, and the line a second for the parent."""

    def __init__(self, sources: Sequence[Source], path: Path) -> None:
        self._sources = sources
        self._path = path
        self._written: object = None
        self._power_mw: dict[str, float | None] = dict.fromkeys(_counted(sources))
        self._temperature_c: dict[str, float] = {}

    def take(self, row: Row) -> None:
        if row.get("temperature_c") is not None:
            self._temperature_c[row["device"]] = row["temperature_c"]
        known = row.get("power_mw")
        if row["device"] in self._power_mw:
            self._power_mw[row["device"]] = row.get("power_instant_mw") if known is None else known

    def report(self, cpu_share: float | None = None) -> None:
        """A parent that does not read loses lines, no more."""
        known = ([(list(source.devices()), list(source.notes)) for source in self._sources], cpu_share)
        if known != self._written:
            _write_json(self._path, describe(self._sources) | {"sampler_cpu_share": cpu_share})
            self._written = known
        watts = [power_mw / 1e3 for power_mw in self._power_mw.values() if power_mw is not None]
        whole = bool(watts) and len(watts) == len(self._power_mw)
        hottest_c = max(self._temperature_c.values(), default=None)
        said = {"power_w": sum(watts) if whole else None, "temperature_c": hottest_c}
        with contextlib.suppress(OSError):
            os.write(1, json.dumps(said).encode() + b"\n")


def _counted(sources: Sequence[Source]) -> list[str]:
    """Ids of the devices whose power now makes the whole, each watt once."""
    devices = [device for source in sources if not isinstance(source, Archive) for device in source.devices()]
    held = holders([(device.layer, device.source, device.host) for device in devices])
    return [device.id for device, holder in zip(devices, held, strict=True) if not holder]


def sample(sources: Sequence[Source], out: Path) -> None:
    """Reads the sources on their schedules into ``out`` until told to stop, and reports once a second."""
    orders, account = _Orders(partial(_settle_s, sources)), _Account(sources, out.with_suffix(".json"))
    pace_ns = 0
    gc.freeze()  # what is there by now stays: looking through it again and again would be the dearest part of sampling
    start_ns = report_due_ns = time.monotonic_ns()
    cpu_start_ns = time.process_time_ns()
    schedules = [_Schedule(source, start_ns) for source in sources if source.devices()]
    with Spool(out, SCHEMA) as spool:
        while orders.wait(min([schedule.due_ns for schedule in schedules], default=time.monotonic_ns() + _NS)):
            now_ns = time.monotonic_ns()
            if orders.pace_ns != pace_ns:
                pace_ns = orders.pace_ns
                for schedule in schedules:
                    schedule.due_ns = now_ns
            for schedule in schedules:
                if schedule.due_ns <= now_ns:
                    schedule.advance(now_ns, pace_ns)
                    for row in schedule.source.read():
                        spool.append(row)
                        account.take(row)
            if now_ns >= report_due_ns:
                report_due_ns = now_ns + _NS
                spool.flush()
                account.report()
        for row in _archived(sources, start_ns):
            spool.append(row)
    account.report(cpu_share=(time.process_time_ns() - cpu_start_ns) / (time.monotonic_ns() - start_ns))


def _archived(sources: Sequence[Source], start_ns: int) -> list[Row]:
    """What can only be asked for now that its time has passed; a refusal becomes a note."""
    rows: list[Row] = []
    taken = {device.id for source in sources if not isinstance(source, Archive) for device in source.devices()}
    for source in (source for source in sources if isinstance(source, Archive)):
        try:
            rows += [row for row in source.between(start_ns, time.monotonic_ns()) if row["device"] not in taken]
        except SourceError as error:
            source.notes.append(Note(f"{source.name}_no_data", str(error)))
        taken |= {device.id for device in source.devices()}
    return rows


def _settle_s(sources: Sequence[Source]) -> float:
    """How long readings are needed after a window so that its end is bracketed: half a mean, and a few updates, or one
    and a few seconds of an instrument that is slow.
    """
    devices = [device for source in sources for device in source.devices()]
    updates_s = [(device.update_ms / 1e3, device.power_window_ms / 2e3) for device in devices]
    return min(_MOST_SETTLE_S, max((half_s + min(6 * one_s, one_s + 5) for one_s, half_s in updates_s), default=0.0))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m runners.power.sampler",
        description="Samples power until standard input closes. Writes FILE and, beside it, a .json that describes it.",
    )
    add_power(parser, "--source")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the Arrow file, such as power.arrow")
    parser.add_argument("--parent", type=int, help="end when this process ends")
    options = parser.parse_args(arguments)
    if options.parent:
        die_with(options.parent)
    if not os.isatty(1):
        os.set_blocking(1, False)
    try:
        sources = open_sources(power_of(options))
    except SourceError as error:
        sys.exit(str(error))
    try:
        sample(sources, options.out)
    finally:
        for source in sources:
            source.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
