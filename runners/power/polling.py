"""Instruments that take their time: read by a thread of their own, so that no other instrument waits for them."""

import threading
import time
from collections import deque
from collections.abc import Callable
from statistics import median

from runners.power.samples import Row

_LEARNED = 3
_KEPT = 50


class Poller:
    """Calls ``poll`` on an absolute schedule from the first ``take`` on, and keeps its rows until they are taken."""

    def __init__(self, poll: Callable[[], list[Row]], period_s: float, first: list[Row]) -> None:
        self._poll = poll
        self._period_s = period_s
        self._rows: deque[Row] = deque(first)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> list[Row]:
        """Rows since the last call."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="power-poll", daemon=True)
            self._thread.start()
        return [self._rows.popleft() for _ in range(len(self._rows))]

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._period_s)

    def _run(self) -> None:
        due_s = time.monotonic() + self._period_s
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            self._rows.extend(self._poll())
            due_s += self._period_s * max(1, -((due_s - time.monotonic()) // self._period_s))


class Cadence:
    """How often an instrument behind a page has a new value, learned from when its numbers change."""

    def __init__(self, assumed_ms: float) -> None:
        self._assumed_ms = assumed_ms
        self._last: object = None
        self._changed_ns: int | None = None
        self._gaps_ms: deque[float] = deque(maxlen=_KEPT)

    def see(self, t_ns: int, value: object) -> None:
        if self._last is not None and value != self._last:
            if self._changed_ns is not None:
                self._gaps_ms.append((t_ns - self._changed_ns) / 1e6)
            self._changed_ns = t_ns
        self._last = value

    @property
    def known(self) -> bool:
        return len(self._gaps_ms) >= _LEARNED

    @property
    def update_ms(self) -> float:
        return round(median(self._gaps_ms)) if self.known else self._assumed_ms


class MeanPower:
    """Mean power between two readings of a counter."""

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None

    def step_mw(self, t_ns: int, energy_mj: float) -> float | None:
        """Since the reading before; unknown for the first, and where the counter fell: there it alone speaks."""
        last, self._last = self._last, (t_ns, energy_mj)
        if last is None or t_ns <= last[0] or energy_mj < last[1]:
            return None
        return (energy_mj - last[1]) / (t_ns - last[0]) * 1e9
