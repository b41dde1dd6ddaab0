"""Server-sent events out of bytes: a small pure decoder.

Lines end at CR, LF or CRLF and nowhere else (U+2028 and U+0085 are text). Every event carries the index of the read in
which its closing blank line arrived. Grammar: WHATWG HTML, "9.2.6 Interpreting an event stream".
"""

from typing import NamedTuple, Protocol

MAX_EVENT_BYTES = 4 * 1024 * 1024


class EventTooLarge(Exception):
    """A line or event went over MAX_EVENT_BYTES."""


class Event(NamedTuple):
    name: bytes
    data: bytes
    read: int


class StreamDecoder(Protocol):
    """Turns the bytes of a body into events, whatever the pieces in which they come."""

    @property
    def idle(self) -> bool:
        """True between events: nothing of the next one has come yet."""

    def feed(self, piece: bytes, read: int) -> list[Event]:
        """The events that this piece completes. Raises EventTooLarge."""

    def tail(self) -> Event | None:
        """What stands at the end without its closing line."""


class Decoder:
    """Feed body bytes in order; get the events that each piece completes."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._after_cr = False
        self._started = False
        self._name = b""
        self._data: list[bytes] = []
        self._size = 0

    @property
    def idle(self) -> bool:
        """True between events: nothing of the next one has come yet."""
        return self._started and not self._rest and not self._data and not self._after_cr and not self._name

    def feed(self, piece: bytes, read: int) -> list[Event]:
        """Raises EventTooLarge."""
        lines = self._lines(piece)
        events: list[Event] = []
        for line in lines:
            if line:
                self._field(line)
            elif self._data:
                data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
                events.append(Event(self._name, data, read))
                self._clear()
            else:
                self._clear()
        return events

    def tail(self) -> Event | None:
        """What stands at the end without its closing blank line; the grammar does not dispatch it."""
        if self._rest:
            self._field(b"".join(self._rest))
            self._rest.clear()
        return Event(self._name, b"\n".join(self._data), -1) if self._data else None

    def _lines(self, piece: bytes) -> list[bytes]:
        """The lines that this piece completes; what follows them waits, unjoined, so that cost stays linear."""
        if self._after_cr and piece:
            piece = piece.removeprefix(b"\n")
            self._after_cr = False
        if b"\r" in piece:
            self._after_cr = piece.endswith(b"\r")
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        head, *lines = piece.split(b"\n")
        if head:
            self._rest.append(head)
            self._rest_size += len(head)
        if self._rest_size > MAX_EVENT_BYTES:
            raise EventTooLarge
        if not lines:
            return lines
        first = b"".join(self._rest)
        last = lines.pop()
        self._rest = [last] if last else []
        self._rest_size = len(last)
        if not self._started:
            self._started = True
            first = first.removeprefix(b"\xef\xbb\xbf")
        return [first, *lines]

    def _clear(self) -> None:
        self._name = b""
        self._data = []
        self._size = 0

    def _field(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            value = line[6:] if line[5:6] == b" " else line[5:]
            self._size += len(value)
            if self._size > MAX_EVENT_BYTES:
                raise EventTooLarge
            self._data.append(value)
        elif line == b"data":
            self._data.append(b"")
        elif line.startswith(b"event:"):
            self._name = line[6:].removeprefix(b" ")
