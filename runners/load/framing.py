"""HTTP/1.1 responses out of stamped reads. llhttp frames them, fed lazily so that the hot path stays short."""

from typing import Any

import httptools

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEADERS = 256
_LINE_END = b"\r\n"
#: Reads that may wait to be framed: a long answer costs no more at its end than a short one.
_UNFED = 16

Read = tuple[int, bytes]


class ProtocolError(Exception):
    """What came back is not a valid HTTP response."""


class TooManyBytes(Exception):
    """The answer went over MAX_BODY_BYTES."""


class Response:
    """Collects reads of one response; knows when it is complete.

    ``reads`` are (stamp_ns, bytes). ``body`` holds (index of its read, bytes) once it was fed. Chunked streams are fed
    a few reads at a time, and when they hold what may be an end; between, a read costs a handful of comparisons.
    """

    __slots__ = (
        "_chunked",
        "_fed",
        "_feeding",
        "_interim",
        "_parser",
        "body",
        "bytes_in",
        "complete",
        "headers",
        "headers_read",
        "keep_alive",
        "reads",
        "status",
        "surplus",
    )

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self.body: list[Read] = []
        self.headers: dict[bytes, bytes] = {}
        self.headers_read: int | None = None
        self.status: int | None = None
        self.bytes_in = 0
        self.complete = False
        self.keep_alive = False
        self.surplus = False
        self._fed = 0
        self._feeding = 0
        self._chunked = False
        self._interim = False
        self._parser: Any = httptools.HttpResponseParser(self)

    def add(self, stamp_ns: int, data: bytes) -> bool:
        """Takes one read; True when the response is complete. Raises ProtocolError, TooManyBytes."""
        self.reads.append((stamp_ns, data))
        self.bytes_in += len(data)
        if self._chunked:
            if self.bytes_in > MAX_BODY_BYTES:
                raise TooManyBytes
            # The last chunk's blank line: whole in this read, with or without bytes behind it, or begun in the last.
            may_end = len(data) < 4 or b"\r\n\r\n" in data or data[0] in _LINE_END
            if not may_end and len(self.reads) - self._fed < _UNFED:
                return False
        self.feed()
        return self.complete

    def feed(self) -> None:
        """Frames every read that was not yet looked at. Raises ProtocolError, TooManyBytes."""
        try:
            while self._fed < len(self.reads):
                self._feeding = self._fed
                self._fed += 1
                if self.complete:
                    self.surplus = True
                    return
                self._parser.feed_data(self.reads[self._feeding][1])
        except httptools.HttpParserUpgrade:
            raise ProtocolError("101 Switching Protocols was not asked for") from None
        except httptools.HttpParserError as error:
            if self.complete:  # what follows a whole response is not ours to judge
                self.surplus = True
                return
            raise ProtocolError(_words(error)) from None
        if self.bytes_in > MAX_BODY_BYTES:
            raise TooManyBytes

    def end_of_stream(self) -> None:
        """The peer closed: completes a body that is delimited by the close. Raises ProtocolError, TooManyBytes."""
        self.feed()
        if not self.complete and self.headers_read is not None and not self._delimited:
            self.complete = True

    def release(self) -> None:
        """Breaks the cycle with the parser, so that memory goes back without the garbage collector."""
        self._parser = None

    @property
    def _delimited(self) -> bool:
        length = self.headers.get(b"content-length", b"")
        return self._chunked or length.isdigit()

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        if self.complete:
            self.surplus = True

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.complete:
            return
        if len(self.headers) >= MAX_HEADERS:
            raise ProtocolError(f"more than {MAX_HEADERS} header lines")
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self.complete:
            return
        status = int(self._parser.get_status_code())
        self._interim = 100 <= status < 200 and status != 101
        if self._interim:
            self.headers.clear()
            return
        self.status = status
        self.headers_read = self._feeding
        self.keep_alive = bool(self._parser.should_keep_alive())
        self._chunked = b"chunked" in self.headers.get(b"transfer-encoding", b"").lower()

    def on_body(self, body: bytes) -> None:
        if not self.complete:
            self.body.append((self._feeding, body))

    def on_message_complete(self) -> None:
        if not self._interim:
            self.complete = True


def _words(error: Exception) -> str:
    cause = error.__context__
    return str(cause) if isinstance(cause, ProtocolError) else str(error)
