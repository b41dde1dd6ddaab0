"""Reads of streams in progress, kept until there are several.

What belongs to one of many streams has left the processor's caches when its next event comes, and fetching it costs
more than reading the event. So an event only joins those before it, and the rest is fetched once for several.
"""

from collections import deque
from collections.abc import Callable
from select import EPOLLIN
from time import monotonic_ns
from typing import Any

from runners.load.clock import KernelClock
from runners.load.transport import ANCILLARY_BYTES, READ_BYTES, Connection

_ENOUGH, _TOGETHER = 8, 16
_LARGE_BYTES = 4_096
_LINE_END = b"\r\n"

#: (stamp_ns by the kernel, read_ns when it was read, bytes). Plain, for there is one for each event.
Read = tuple[int, int, bytes]
#: (file descriptor, epoll's mask, a stream's reads to be looked at now, or its error; None for what is no stream).
Attention = tuple[int, int, list[Read] | OSError | None]


class Intake:
    """Of the connections with a chunked answer, which goes on until a read that may end it."""

    def __init__(self, clock: KernelClock) -> None:
        self._clock = clock
        self._streams: dict[int, tuple[Callable[[int, int], Any], list[Read]]] = {}
        self._ripe: deque[int] = deque()

    def begin(self, connection: Connection) -> None:
        self._streams[connection.fd] = connection.sock.recvmsg, []

    def end(self, fd: int) -> None:
        self._streams.pop(fd, None)

    def kept(self, fd: int) -> list[Read]:
        """What was read of a stream and not yet looked at; it is forgotten here."""
        if fd not in self._streams:
            return []
        receive, reads = self._streams[fd]
        self._streams[fd] = receive, []
        return reads

    def ripe(self) -> list[int]:
        """Some streams of which enough is kept. Together they cost less, but all at once would take long."""
        return [self._ripe.popleft() for _ in range(_TOGETHER)] if len(self._ripe) >= _TOGETHER else []

    def take(self, events: list[tuple[int, int]]) -> list[Attention]:
        """Reads those of epoll's ``events`` that are streams with bytes; returns what has to be looked at now."""
        streams, clock = self._streams, self._clock
        attention: list[Attention] = []
        for fd, mask in events:
            stream = streams.get(fd)
            if stream is None or mask != EPOLLIN:
                attention.append((fd, mask, None))
                continue
            receive, reads = stream
            try:
                data, ancillary, _, _ = receive(READ_BYTES, ANCILLARY_BYTES)
            except BlockingIOError:
                continue
            except OSError as error:
                attention.append((fd, mask, error))
                continue
            now = monotonic_ns()
            reads.append((clock.stamp_ns(ancillary[0][2], now) if ancillary else now, now, data))
            # The last chunk's blank line: whole in this read, with or without bytes behind it, or begun in the last.
            may_end = len(data) < 4 or data[0] in _LINE_END or b"\r\n\r\n" in data
            if may_end or len(data) > _LARGE_BYTES:
                attention.append((fd, mask, self.kept(fd)))
            elif len(reads) == _ENOUGH:
                self._ripe.append(fd)
        return attention
