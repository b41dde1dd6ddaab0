"""Finished exchanges that wait to be read."""

from collections import deque

from runners.load.exchange import Exchange

_MAX_WAITING = 2_048
_MAX_BYTES = 64_000_000
#: Too many requests, or no money left: only the answer's text tells, so it is read before others.
_MAY_STOP_THE_RUN = 429


class Backlog:
    """Gives them back in the order in which they finished, those first that may stop the run."""

    def __init__(self) -> None:
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
