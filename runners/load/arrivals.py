"""When requests are sent: a number kept in flight, or a schedule of absolute times computed beforehand."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from runners.spec import Arrivals


class Pacing(Protocol):
    """Asked before each send. All times are CLOCK_MONOTONIC nanoseconds."""

    def next_due_ns(self, now_ns: int, in_flight: int) -> int | None:
        """When the next request is to be sent (now or earlier: at once); None: not before another one ends."""

    def ended(self, now_ns: int) -> bool:
        """True when no further request will be sent."""

    def take(self, now_ns: int) -> tuple[int, bool]:
        """The due time of the request that is sent now, and whether it is warm-up."""


@dataclass
class ClosedLoop:
    """``concurrency`` requests in flight until ``requests`` were sent after the warm-up or ``end_ns`` has come."""

    concurrency: int
    warm_ns: int
    requests: int | None
    end_ns: int | None
    measured: int = 0

    def next_due_ns(self, now_ns: int, in_flight: int) -> int | None:
        return now_ns if in_flight < self.concurrency and not self.ended(now_ns) else None

    def ended(self, now_ns: int) -> bool:
        if self.end_ns is not None and now_ns >= self.end_ns:
            return True
        return self.requests is not None and self.measured >= self.requests

    def take(self, now_ns: int) -> tuple[int, bool]:
        warmup = now_ns < self.warm_ns
        self.measured += not warmup
        return now_ns, warmup


@dataclass
class OpenLoop:
    """Sends at ``due_ns`` whatever comes back, up to ``max_in_flight``; beyond it requests wait and their lag shows."""

    due_ns: NDArray[np.int64]
    warm_ns: int
    max_in_flight: int
    sent: int = 0
    capped: bool = False

    def next_due_ns(self, now_ns: int, in_flight: int) -> int | None:
        if self.sent >= len(self.due_ns):
            return None
        if in_flight >= self.max_in_flight:
            self.capped = self.capped or self.due_ns[self.sent] <= now_ns
            return None
        return int(self.due_ns[self.sent])

    def ended(self, now_ns: int) -> bool:
        return self.sent >= len(self.due_ns)

    def take(self, now_ns: int) -> tuple[int, bool]:
        due = int(self.due_ns[self.sent])
        self.sent += 1
        return due, due < self.warm_ns


def schedule_ns(
    arrivals: Arrivals, rate_per_s: float, *, warmup_s: float, requests: int | None, duration_s: float | None, seed: int
) -> NDArray[np.int64]:
    """Offsets from the stage's start, ascending; the first is 0. Nothing drifts, for nothing is added up while running.

    ``constant``: equal gaps of 1/rate. ``poisson``: exponential gaps of mean 1/rate, from ``seed``.
    """
    measured = requests if requests is not None else int(np.ceil(rate_per_s * (duration_s or 0.0)))
    count = int(np.ceil(rate_per_s * warmup_s)) + measured
    if arrivals is Arrivals.POISSON:
        # Three standard deviations more than needed, cut below: the number in a time is random too.
        draw = count if requests is not None and not warmup_s else int(count + 6 * np.sqrt(count) + 16)
        gaps_s = np.random.default_rng(seed).exponential(1.0 / rate_per_s, draw)
        offsets_s = np.concatenate(([0.0], np.cumsum(gaps_s)[:-1]))
    else:
        offsets_s = np.arange(count) / rate_per_s
    offsets_ns = np.rint(offsets_s * 1e9).astype(np.int64)
    if duration_s is not None:
        offsets_ns = offsets_ns[offsets_ns < round((warmup_s + duration_s) * 1e9)]
    if requests is not None:
        first = int(np.searchsorted(offsets_ns, round(warmup_s * 1e9)))
        offsets_ns = offsets_ns[: first + requests]
    return offsets_ns
