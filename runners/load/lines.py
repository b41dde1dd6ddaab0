"""JSON lines out of a body: every line that is not blank is an event."""

from runners.load.sse import MAX_EVENT_BYTES, MAX_LINES, Event, EventTooLarge


class LineDecoder:
    """The lines of one body, as events."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.at = 0
        self._lines = 0

    def next(self) -> Event | None:
        """None when no whole line is left. Raises EventTooLarge."""
        body = self._body
        while True:
            start = self.at
            end = body.find(b"\n", start) + 1
            if (end or len(body)) - start > MAX_EVENT_BYTES:
                raise EventTooLarge
            if not end:
                return None
            self.at = end
            self._lines += 1
            if self._lines > MAX_LINES:
                raise EventTooLarge
            if line := body[start:end].strip():
                return Event(b"", line, start, end)

    def tail(self) -> Event | None:
        """The last line, when the body ends without a line end."""
        line = self._body[self.at :].strip()
        return Event(b"", line, self.at, len(self._body)) if line else None
