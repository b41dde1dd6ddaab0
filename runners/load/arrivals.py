"""When requests are sent: a number kept in flight, or a schedule of absolute times computed beforehand."""

from dataclasses import dataclass
from math import floor
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from runners.spec import Arrivals

Offsets = NDArray[np.int64]


class Pacing(Protocol):
    """Asked before each send. All times are CLOCK_MONOTONIC nanoseconds. ``follows``: what an answer says decides what
    is sent next.
    """

    follows: ClassVar[bool]

    def next_due_ns(self, now_ns: int, in_flight: int) -> int | None:
        """When the next request is to be sent (now or earlier: at once); None: not before another one ends."""

    def ended(self, now_ns: int) -> bool:
        """True when no further request will be sent."""

    def take(self, now_ns: int) -> tuple[int, bool]:
        """The due time of the request that is sent now, and whether it is load only: warm-up or cool-down."""


@dataclass
class Span:
    """The measured part of a stage: from ``warm_ns`` until ``requests`` were sent or ``end_ns`` has come; what is sent
    before it is warm-up, and for ``cooldown_ns`` after it cool-down."""

    warm_ns: int
    requests: int | None = None
    end_ns: int | None = None
    cooldown_ns: int = 0
    measured: int = 0
    _full_ns: int | None = None

    def ended(self, now_ns: int) -> bool:
        """Whether the cool-down is over, too."""
        measured_until_ns = now_ns - self.cooldown_ns
        if self._full_ns is not None and measured_until_ns >= self._full_ns:
            return True
        return self.end_ns is not None and measured_until_ns >= self.end_ns

    def count(self, due_ns: int) -> bool:
        """Counts a request that was due then; True when it is not measured."""
        late = self.end_ns is not None and due_ns >= self.end_ns
        if due_ns < self.warm_ns or late or self._full_ns is not None:
            return True
        self.measured += 1
        if self.measured == self.requests:
            self._full_ns = due_ns
        return False


@dataclass
class ClosedLoop:
    """``concurrency`` requests in flight while ``span`` lasts; with ``rise_from`` the number grows to that evenly over
    the measured part, whose end must then be a time."""

    follows: ClassVar[bool] = False
    concurrency: int
    span: Span
    rise_from: float | None = None

    def next_due_ns(self, now_ns: int, in_flight: int) -> int | None:
        if self.ended(now_ns):
            return None
        if in_flight < self._allowed(now_ns):
            return now_ns
        return self._opens_ns(in_flight + 1) if in_flight < self.concurrency else None

    def ended(self, now_ns: int) -> bool:
        return self.span.ended(now_ns)

    def take(self, now_ns: int) -> tuple[int, bool]:
        return now_ns, self.span.count(now_ns)

    def _allowed(self, now_ns: int) -> int:
        span = self.span
        if self.rise_from is None or span.end_ns is None:
            return self.concurrency
        part = (now_ns - span.warm_ns) / (span.end_ns - span.warm_ns)
        rising = self.rise_from + (self.concurrency - self.rise_from) * min(max(part, 0.0), 1.0)
        return max(1, floor(rising + 1e-9))

    def _opens_ns(self, slots: int) -> int | None:
        span = self.span
        if self.rise_from is None or span.end_ns is None:
            return None
        part = (slots - self.rise_from) / (self.concurrency - self.rise_from)
        return span.warm_ns + round(part * (span.end_ns - span.warm_ns))


@dataclass
class OpenLoop:
    """Sends at ``due_ns`` whatever comes back, up to ``max_in_flight``; beyond it requests wait and their lag shows."""

    follows: ClassVar[bool] = False
    due_ns: Offsets
    span: Span
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
        return due, self.span.count(due)

    @property
    def planned(self) -> int:
        """How many of the schedule are measured."""
        span = self.span
        measured = self.due_ns >= span.warm_ns
        if span.end_ns is not None:
            measured &= self.due_ns < span.end_ns
        return min(int(measured.sum()), span.requests or len(self.due_ns))


@dataclass(frozen=True)
class Times:
    """The phases of an open loop, in seconds and requests."""

    warmup_s: float = 0.0
    requests: int | None = None
    duration_s: float | None = None
    cooldown_s: float = 0.0


def schedule_ns(
    arrivals: Arrivals, rate_per_s: float, times: Times, seed: int, *, cv: float = 1.0, rise_from: float | None = None
) -> Offsets:
    """Offsets from the stage's start, ascending; the first is 0. Nothing drifts, for nothing is added up while running.

    ``constant``: equal gaps of 1/rate. ``poisson``: exponential gaps of mean 1/rate, from ``seed``. ``gamma``: gaps of
    that mean and coefficient of variation ``cv``. ``rise_from``: the rate grows from there over ``duration_s``; gaps
    shrink with it.
    """
    first_rate = rate_per_s if rise_from is None else rise_from
    measured_s = times.duration_s or 0.0
    expected = first_rate * times.warmup_s + rate_per_s * times.cooldown_s
    expected += (first_rate + rate_per_s) / 2 * measured_s if times.requests is None else times.requests
    # More than needed, cut below: the number in a time is random too.
    drawn = int(np.ceil(expected)) if arrivals is Arrivals.CONSTANT else int(expected + 6 * cv * expected**0.5 + 16)
    passed = _unit_times(arrivals, drawn + 1, seed, cv)
    if rise_from is None:
        offsets_s = passed / rate_per_s
    else:
        offsets_s = _rising(passed, first_rate, rate_per_s, times.warmup_s, measured_s)
    return cut(np.rint(offsets_s * 1e9).astype(np.int64), times)


def _unit_times(arrivals: Arrivals, count: int, seed: int, cv: float) -> NDArray[np.float64]:
    """Times of an arrival process of one a second."""
    if arrivals is Arrivals.CONSTANT:
        return np.arange(count, dtype=np.float64)
    generator = np.random.default_rng(seed)
    if arrivals is Arrivals.GAMMA:
        gaps = generator.gamma(1 / cv**2, cv**2, count)
    else:
        gaps = generator.exponential(1.0, count)
    return np.asarray(np.concatenate(([0.0], np.cumsum(gaps)[:-1])), dtype=np.float64)


def _rising(
    passed: NDArray[np.float64], first: float, last: float, flat_s: float, rise_s: float
) -> NDArray[np.float64]:
    """When as many arrivals are expected as ``passed`` says: the inverse of the rate's integral. The rate is ``first``
    for ``flat_s``, rises evenly to ``last`` over ``rise_s``, and stays there.
    """
    before, during = first * flat_s, (first + last) / 2 * rise_s
    slope = (last - first) / rise_s
    rising = np.clip(passed - before, 0, during)
    rise = (np.sqrt(first**2 + 2 * slope * rising) - first) / slope
    after = np.maximum(passed - before - during, 0) / last
    return np.asarray(np.minimum(passed, before) / first + rise + after, dtype=np.float64)


def cut(offsets_ns: Offsets, times: Times) -> Offsets:
    """What the phases let through of a schedule."""
    warm_ns, cool_ns = round(times.warmup_s * 1e9), round(times.cooldown_s * 1e9)
    if times.duration_s is not None:
        offsets_ns = offsets_ns[offsets_ns < warm_ns + round(times.duration_s * 1e9) + cool_ns]
    if times.requests is None:
        return offsets_ns
    full = int(np.searchsorted(offsets_ns, warm_ns)) + times.requests
    if full >= len(offsets_ns):
        return offsets_ns
    cool = np.searchsorted(offsets_ns[full:], offsets_ns[full - 1] + cool_ns) if cool_ns else 0
    return offsets_ns[: full + int(cool)]
