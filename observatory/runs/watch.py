"""What goes on beside the measuring: progress and lease to the database each second, partial rows to storage."""

import logging
import threading
import time
from collections.abc import Callable
from enum import Enum, auto
from types import TracebackType
from typing import Any, Protocol, Self

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from observatory.runs import plain, states
from observatory.runs.spool import Copier

logger = logging.getLogger(__name__)

_SERIES_KEYS = (
    "t_s",
    "stage",
    "sent",
    "ok",
    "failed",
    "in_flight",
    "output_tokens_per_s",
    "ttft_ms",
    "power_w",
)
_SERIES_POINTS = 600


#: Takes progress and its series to the database.
Renew = Callable[[dict[str, Any], list[dict[str, Any]]], states.Hold]


class Working(Protocol):
    """An instrument, or anything else whose progress is told."""

    @property
    def progress(self) -> dict[str, Any]: ...


class Verdict(Enum):
    GO_ON = auto()
    CANCEL = auto()
    LOST = auto()


class Series:
    """Progress points for the moving chart; when there are too many, every other one goes and the step doubles."""

    def __init__(self) -> None:
        self.points: list[dict[str, Any]] = []
        self._step_s = 1.0

    def add(self, progress: dict[str, Any]) -> None:
        t_s = progress.get("t_s")
        if not isinstance(t_s, int | float) or (self.points and t_s - self.points[-1]["t_s"] < self._step_s * 0.9):
            return
        self.points.append({key: progress.get(key) for key in _SERIES_KEYS})
        if len(self.points) > _SERIES_POINTS:
            self.points = self.points[::2]
            self._step_s *= 2


class _Every(threading.Thread):
    """Calls ``act`` each ``seconds`` in a thread of its own until closed; what it raises is logged and tried again."""

    def __init__(self, seconds: float, act: Callable[[], None]) -> None:
        super().__init__(daemon=True, name=f"every {seconds:g} s: {act.__qualname__}")
        self._seconds = seconds
        self._act = act
        self._closed = threading.Event()

    def run(self) -> None:
        try:
            while not self._closed.wait(self._seconds):
                try:
                    self._act()
                except Exception:
                    logger.exception("%s failed; it is tried again in %g s", self._act.__qualname__, self._seconds)
        finally:
            connection.close()

    def close(self) -> None:
        self._closed.set()
        self.join(5)


class Watch:
    """Keeps the lease by ``renew`` while ``working`` goes on. ``verdict`` says whether it may go on; ask it often."""

    def __init__(self, working: Working, copier: Copier, secret: str, renew: Renew) -> None:
        self._working = working
        self._renew_lease = renew
        self._secret = secret
        self._series = Series()
        self._hold = states.Hold(mine=True, cancel=False)
        self._renewed = time.monotonic()
        self._threads = (_Every(1.0, self._renew), _Every(settings.RUN_HEARTBEAT_S, copier.copy))

    @property
    def verdict(self) -> Verdict:
        """LOST also when no renewal came through for a whole lease: someone else may believe the endpoint free."""
        if not self._hold.mine or time.monotonic() - self._renewed > settings.RUN_LEASE_S:
            return Verdict.LOST
        return Verdict.CANCEL if self._hold.cancel else Verdict.GO_ON

    def _renew(self) -> None:
        begun = time.monotonic()
        progress = plain.plain(self._working.progress, self._secret)
        self._series.add(progress)
        try:
            self._hold = self._renew_lease(progress, self._series.points)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("no heartbeat (%s); it is tried again each second", error)
            connection.close()
        else:
            self._renewed = begun

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for thread in self._threads:
            thread.close()
