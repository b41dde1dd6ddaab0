"""JSON lines out of bytes: every line that is not blank is an event."""

from runners.load.sse import MAX_EVENT_BYTES, Event, EventTooLarge


class LineDecoder:
    """Feed body bytes in order; get the lines that each piece completes, as events."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._read = 0

    @property
    def idle(self) -> bool:
        """True between lines: nothing of the next one has come yet."""
        return not self._rest

    def feed(self, piece: bytes, read: int) -> list[Event]:
        """Raises EventTooLarge."""
        self._read = read
        head, *lines = piece.split(b"\n")
        if head:
            self._rest.append(head)
            self._rest_size += len(head)
        if self._rest_size > MAX_EVENT_BYTES:
            raise EventTooLarge
        if not lines:
            return []
        whole = [b"".join(self._rest), *lines]
        last = whole.pop()
        self._rest = [last] if last else []
        self._rest_size = len(last)
        return [Event(b"", line, read) for line in map(bytes.strip, whole) if line]

    def tail(self) -> Event | None:
        """The last line, when the body ends without a line end."""
        line = b"".join(self._rest).strip()
        self._rest.clear()
        return Event(b"", line, self._read) if line else None
