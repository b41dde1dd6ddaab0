"""The scraper: reads a server's metrics page once a second in a process of its own, and no load ever waits for it.

``Scraper`` is the handle for the process that measures; ``python -m runners.server.scraper`` is the process. What goes
wrong here is a note in the results and never the end of a run.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import runners
from runners.address import AddressError
from runners.lifeline import die_with
from runners.load.records import Spool
from runners.load.transport import Destination
from runners.server.metrics import BY_KEY, Kind
from runners.server.page import DESCRIPTION_NAME, Account, MetricsPage, Order, PageError, note_of
from runners.server.samples import SCHEMA
from runners.spec import ServerMetrics, Target

SPOOL_NAME = "server.arrow"
#: How long the start of a stage may wait for the page to be read once more.
MARK_TIMEOUT_S = 1.0

_PERIOD_S = 1.0
_SETTLE_S, _SETTLE_TRIES = 0.05, 5
_STOP_TIMEOUT_S = 1.5


class Scraper:
    """Handle of a scraper process that writes server.arrow and server.json into a directory.

    Without a process (switched off, or no address) the files are as if nothing had been found.
    """

    def __init__(
        self,
        out: Path,
        process: "subprocess.Popen[bytes] | None",
        notes: list[dict[str, str]],
        order: Order | None = None,
    ) -> None:
        self.marks_ns: list[int | None] = []
        self._out = out
        self._process = process
        self._order = order
        self._notes = notes
        self._buffer = b""
        self._stopped = process is None

    @classmethod
    def start(cls, asked: ServerMetrics, where: Destination, target: Target, headers: Sequence[str], out: Path) -> Self:
        """``headers`` are whole lines that the measured server wants. To be called from the main thread: the process
        ends with the thread that started it.
        """
        Spool(out / SPOOL_NAME, SCHEMA).close()
        if not asked.scrape:
            return cls(
                out, None, [note_of("metrics_off", "The server's metrics page was not read: it was switched off.")]
            )
        try:
            order = Order.of(asked, where, target, headers)
        except AddressError as error:
            return cls(out, None, [note_of("metrics_address", f"The metrics page was not read. {error}")])
        process = subprocess.Popen(
            [sys.executable, "-m", "runners.server.scraper", str(out.absolute()), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=Path(runners.__file__).parents[1],
        )
        scraper = cls(out, process, [], order)
        scraper._tell(order.to_json())
        return scraper

    def look(self) -> None:
        """Ends the process where the page proves not to be there, so that no stage waits for it to begin. To be called
        once the server has answered: some have no page before.
        """
        end_ns = time.monotonic_ns() + round(MARK_TIMEOUT_S * 1e9)

        def give_up(now_ns: int) -> None:
            if now_ns > end_ns:
                raise TimeoutError

        if self._process is None or self._order is None:
            return
        account = Account(url=self._order.url)
        with contextlib.suppress(PageError, TimeoutError):
            MetricsPage(self._order, account).read(give_up)
        if account.hopeless:
            self._stopped = True
            self._process.kill()
            self._process.communicate()
            account.write(self._out)

    def mark(self) -> None:
        """Has the page read now, between two stages, and keeps when that was; at most MARK_TIMEOUT_S."""
        number = len(self.marks_ns)
        self.marks_ns.append(None)
        if self._stopped or not self._tell({"mark": number}):
            return
        deadline = time.monotonic() + MARK_TIMEOUT_S
        while self.marks_ns[number] is None and (left_s := deadline - time.monotonic()) > 0:
            if not self._listen(left_s):
                return

    def stop(self) -> None:
        if self._process is None or self._stopped:
            return
        self._stopped = True
        assert self._process.stdin is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        for give_up in (self._process.terminate, self._process.kill):  # it may be waiting for a page that never comes
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                give_up()
        self._process.wait()
        if self._process.returncode != 0:
            self._notes.append(note_of("scraper_lost", f"The scraper ended with status {self._process.returncode}."))

    def describe(self) -> dict[str, Any]:
        """The "server" account of summary.json (docs/server-metrics.md)."""
        try:
            said: dict[str, Any] = json.loads((self._out / DESCRIPTION_NAME).read_bytes())
        except (OSError, ValueError):
            said = Account().to_json()
        return said | {"notes": [*self._notes, *said["notes"]], "marks_ns": self.marks_ns}

    def _tell(self, message: Mapping[str, Any]) -> bool:
        assert self._process is not None  # noqa: S101
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def _listen(self, seconds: float) -> bool:
        """Takes in answers to marks; False when there will be none any more."""
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        fd = self._process.stdout.fileno()
        if not select.select([fd], [], [], seconds)[0]:
            return True
        data = os.read(fd, 65_536)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            answer = json.loads(line)
            self.marks_ns[answer["mark"]] = answer["t_ns"]
        return bool(data)


# the process


class _Reader:
    """Reads the page once at a time into the spool."""

    def __init__(self, order: Order, spool: Spool) -> None:
        self.account = Account(url=order.url)
        self._page = MetricsPage(order, self.account)
        self._spool = spool

    def read(self) -> tuple[int, float]:
        """(t_ns, sum of all counters). Raises PageError, which is in the account by then."""
        before = time.monotonic_ns()
        found = self._page.read()
        after = time.monotonic_ns()
        t_ns = (before + after) // 2
        for key, sample in found:
            self._spool.append({"t_ns": t_ns, "metric": key, "labels": sample.labels, "value": sample.value})
        self.account.scrapes += 1
        self.account.slowest_ms = max(self.account.slowest_ms, (after - before) / 1e6)
        return t_ns, sum(sample.value for key, sample in found if key in BY_KEY and BY_KEY[key].kind is Kind.COUNTER)

    def settle(self) -> int:
        """Reads until two readings in a row count the same, for engines count a moment after they answer."""
        t_ns, total = self.read()
        for _ in range(_SETTLE_TRIES - 1):
            time.sleep(_SETTLE_S)
            before = total
            t_ns, total = self.read()
            if total == before:
                break
        return t_ns


def scrape(order: Order, out: Path) -> None:
    """Reads the page each second and at each mark, until standard input closes or the page proves not to be there."""
    with Spool(out / SPOOL_NAME, SCHEMA) as spool:
        reader = _Reader(order, spool)
        due_s = time.monotonic()
        try:
            while not reader.account.hopeless and (marks := _marks(due_s)) is not None:
                if marks:
                    _answer(reader, marks)
                if (now_s := time.monotonic()) >= due_s:
                    due_s += _PERIOD_S * max(1, -((due_s - now_s) // _PERIOD_S))
                    with contextlib.suppress(PageError):
                        reader.read()
                    spool.flush()
        finally:
            reader.account.write(out)


def _marks(until_s: float) -> list[int] | None:
    """Marks that were asked for before ``until_s`` (CLOCK_MONOTONIC); None when the parent wants no more."""
    if not select.select([0], [], [], max(0.0, until_s - time.monotonic()))[0]:
        return []
    data = os.read(0, 65_536)
    return [json.loads(line)["mark"] for line in data.splitlines()] if data else None


def _answer(reader: _Reader, marks: list[int]) -> None:
    with contextlib.suppress(PageError, OSError):
        t_ns = reader.settle()
        for mark in marks:
            os.write(1, json.dumps({"mark": mark, "t_ns": t_ns}).encode() + b"\n")


def main() -> int:
    out, parent = Path(sys.argv[1]), int(sys.argv[2])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to judge
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    die_with(parent)
    order = b""
    while not order.endswith(b"\n"):  # unbuffered: marks may follow at once
        piece = os.read(0, 1)
        if not piece:
            return 1
        order += piece
    scrape(Order.from_json(json.loads(order)), out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
