"""Finished exchanges that wait to be read."""

import math
from collections import deque

from runners.load.exchange import Exchange

_MAX_WAITING = 2_048
_MAX_BYTES = 64_000_000
#: Requests that ended together: those that take their places go out before any answer is read, which takes a fraction
#: of a millisecond. So long after the last one's end, or at the latest so long after the first one's.
_CALM_NS, _LATEST_NS = 2_000_000, 10_000_000
#: Too many requests, or no money left: only the answer's text tells, so it is read before others.
_MAY_STOP_THE_RUN = 429


class Backlog:
    """Gives them back in the order in which they finished, those first that may stop the run. With ``hurry`` they are
    to be read at once, because what they say decides what is sent next.
    """

    def __init__(self) -> None:
        self.hurry = False
        self._waiting: deque[Exchange] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def pressing(self) -> bool:
        """Whether the next has to be read although there is other work."""
        waiting = self._waiting
        urgent = bool(waiting) and waiting[0].response.status == _MAY_STOP_THE_RUN
        return urgent or len(waiting) > _MAX_WAITING or self._bytes > _MAX_BYTES

    @property
    def read_at_ns(self) -> float:
        """When the next is to be read unless there is other work; endless where none waits."""
        waiting = self._waiting
        if not waiting:
            return math.inf
        return 0 if self.hurry else min(waiting[-1].end_ns + _CALM_NS, waiting[0].end_ns + _LATEST_NS)

    def add(self, exchange: Exchange) -> None:
        if exchange.response.status == _MAY_STOP_THE_RUN:
            self._waiting.appendleft(exchange)
        else:
            self._waiting.append(exchange)
        self._bytes += exchange.response.bytes_in

    def take(self) -> Exchange:
        exchange = self._waiting.popleft()
        self._bytes -= exchange.response.bytes_in
        return exchange
