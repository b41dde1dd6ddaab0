"""Server-sent events out of a body.

Lines end at CR, LF or CRLF and nowhere else (U+2028 and U+0085 are text). Every event carries its place; the read in
which the end of that came completed it. Grammar: WHATWG HTML, "9.2.6 Interpreting an event stream".
"""

import re
from typing import NamedTuple, Protocol

MAX_EVENT_BYTES = 4 * 1024 * 1024
#: Of one body: reading more would hold up what else is measured.
MAX_LINES = 1_000_000
_LINE_END = re.compile(rb"\r\n?|\n")
#: The usual event, one line of data.
_USUAL = re.compile(rb"data: ?+([^\r\n]+)(?:\n\n|\r\n\r\n)")


class EventTooLarge(Exception):
    """A line or event went over MAX_EVENT_BYTES, or a body over MAX_LINES."""


class Event(NamedTuple):
    """``start`` and ``end`` are its place in the body, closing line included."""

    name: bytes
    data: bytes
    start: int
    end: int


class StreamDecoder(Protocol):
    """Finds the events of a body one after the other; ``at`` is where the next begins, and may be moved on."""

    at: int

    def next(self) -> Event | None:
        """None when no whole event is left. Raises EventTooLarge."""

    def tail(self) -> Event | None:
        """What stands at the end without its closing line."""


class Decoder:
    """Server-sent events of one body."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.at = 3 if body.startswith(b"\xef\xbb\xbf") else 0
        self._lines = 0

    def next(self) -> Event | None:
        """None when no whole event is left. Raises EventTooLarge."""
        body, start, size, name = self._body, self.at, 0, b""
        usual = _USUAL.match(body, start)
        if usual and usual.end() - start < MAX_EVENT_BYTES and self._lines < MAX_LINES:
            self.at = usual.end()
            self._lines += 2
            return Event(b"", usual[1], start, self.at)
        data: list[bytes] = []
        begin = start
        for lines, line_end in enumerate(_LINE_END.finditer(body, start), self._lines):
            line = body[begin : line_end.start()]
            begin = line_end.end()
            if line:
                size += len(line)
                name = _take(line, name, data)
                if size > MAX_EVENT_BYTES:
                    raise EventTooLarge
            else:
                self.at = begin
                if lines > MAX_LINES:
                    raise EventTooLarge
                if data:
                    self._lines = lines
                    return Event(name, data[0] if len(data) == 1 else b"\n".join(data), start, begin)
                start, size, name = begin, 0, b""
        if len(body) - begin > MAX_EVENT_BYTES:
            raise EventTooLarge
        return None

    def tail(self) -> Event | None:
        """What stands at the end without its closing blank line; the grammar does not dispatch it."""
        data: list[bytes] = []
        name = b""
        for line in _LINE_END.split(self._body[self.at :]):
            name = _take(line, name, data)
        return Event(name, b"\n".join(data), self.at, len(self._body)) if data else None


def _take(line: bytes, name: bytes, data: list[bytes]) -> bytes:
    """Adds a line's data; returns the event's name after it."""
    if line.startswith(b"data:"):
        data.append(line[6:] if line[5:6] == b" " else line[5:])
    elif line == b"data":
        data.append(b"")
    elif line.startswith(b"event:"):
        return line[6:].removeprefix(b" ")
    return name
