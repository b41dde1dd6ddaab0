"""HTTP/1.1 responses out of stamped reads: llhttp reads the head, arithmetic finds the body and its end."""

import re
from array import array

import httptools

from runners.load.receiver import Kept
from runners.load.stamped import StampedBytes

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEADERS = 256
_MAX_LINE_BYTES = 16_384
_MAX_TRAILER_BYTES = 65_536
_EXTENSION = rb'(?:;[!#-\'*+.\w^`|~-]+(?:=(?:[!#-\'*+.\w^`|~-]+|"[^"\x00-\x08\x0a-\x1f\x7f]*"))?)*'
_CHUNK = re.compile(rb"(0*[0-9A-Fa-f]{1,16})" + _EXTENSION + rb"\r\n")
_CHUNK_BEGUN = re.compile(rb"(?:0*[0-9A-Fa-f]{0,16}(?:;[^\r\n]*)?\r?)?")
_TRAILER = re.compile(rb"[!#-'*+.\w^`|~-]+:[^\r\n\x00]*\r\n")


class ProtocolError(Exception):
    """What came back is not a valid HTTP response."""


class TooManyBytes(Exception):
    """The answer went over MAX_BODY_BYTES."""


class Head:
    """What llhttp tells of the lines before a body; ``raw`` are these."""

    __slots__ = ("complete", "headers", "raw")

    def __init__(self) -> None:
        self.raw = bytearray()
        self.complete = False
        self.headers: dict[bytes, bytes] = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        if len(self.headers) >= MAX_HEADERS:
            raise ProtocolError(f"more than {MAX_HEADERS} header lines")
        self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        self.complete = True


class Response:
    """Collects reads of one response; knows when it is complete.

    ``stamps_ns`` are those of its reads, of kept chunks only once the body was asked for; ``headers_read`` is the read
    in which the head ended.
    ``chunked``: the body tells its own end.
    """

    __slots__ = (
        "_body",
        "_ends",
        "_head",
        "_kept",
        "_left",
        "_parser",
        "_rest",
        "bytes_in",
        "chunked",
        "complete",
        "headers_read",
        "keep_alive",
        "stamps_ns",
        "status",
        "surplus",
    )

    def __init__(self) -> None:
        self.stamps_ns = array("q")
        self.headers_read: int | None = None
        self.status: int | None = None
        self.bytes_in = 0
        self.complete = False
        self.keep_alive = False
        self.chunked = False
        self.surplus = False
        self._head = Head()
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self._head)
        self._body = bytearray()
        self._ends = array("q")  # for each read: how much of the body was there after it
        self._kept: list[tuple[int, Kept]] = []  # whole chunks, each with how many single reads came before
        self._left: int | None = None  # of the body, or of the chunk; None until a close, or between chunks
        self._rest = b""  # a line that has only begun

    @property
    def headers(self) -> dict[bytes, bytes]:
        return self._head.headers

    def unread(self) -> "Response":
        """Its status and its size alone."""
        other = Response()
        other.bytes_in, other.status = self.bytes_in, self.status
        return other

    def add(self, stamp_ns: int, data: bytes) -> bool:
        """Takes one read; True when the response is complete. Raises ProtocolError, TooManyBytes."""
        self.stamps_ns.append(stamp_ns)
        self.bytes_in += len(data)
        try:
            if self.complete:
                self.surplus = True
            elif self.headers_read is None:
                self._frame_head(data)
            else:
                self._frame_body(data)
        finally:
            self._ends.append(len(self._body))
        if self.bytes_in > MAX_BODY_BYTES:
            raise TooManyBytes
        return self.complete

    @property
    def between_chunks(self) -> bool:
        """Whether a chunk begins next."""
        return self.chunked and self._left is None and not self._rest and not self.complete

    @property
    def bytes_left(self) -> int:
        """How many may still come."""
        return MAX_BODY_BYTES - self.bytes_in

    def add_chunks(self, kept: Kept) -> None:
        """Takes reads of whole chunks at once, where a chunk begins next."""
        self._kept.append((len(self.stamps_ns), kept))
        self.bytes_in += kept.bytes_in

    def keep(self, stamp_ns: int, data: bytes) -> bool:
        """Takes one read, where a chunk begins next, if it is whole chunks and nothing else."""
        before = len(self.stamps_ns)
        if not self._kept or self._kept[-1][0] != before:
            self._kept.append((before, Kept()))
        taken = len(data) <= self.bytes_left and self._kept[-1][1].keep(stamp_ns, data)
        self.bytes_in += len(data) if taken else 0
        return taken

    def end_of_stream(self) -> None:
        """The peer closed: completes a body that is delimited by the close."""
        if self.headers_read is not None and not self.chunked and self._left is None:
            self.complete = True

    def body(self) -> StampedBytes:
        """What came of the body, its chunks joined."""
        if self._kept:
            self._unpack()
        return StampedBytes(bytes(self._body), self._ends, self.stamps_ns)

    def _unpack(self) -> None:
        """Puts the kept chunks in their places between the reads added singly."""
        singly, ends, stamps_ns = self._body, self._ends, self.stamps_ns
        self._body, self._ends, self.stamps_ns = bytearray(), array("q"), array("q")
        read = start = 0
        for before, kept in [*self._kept, (len(ends), None)]:
            stop = ends[before - 1] if before else 0
            moved = len(self._body) - start
            self._body += singly[start:stop]
            self._ends.extend(end + moved for end in ends[read:before])
            self.stamps_ns += stamps_ns[read:before]
            read, start = before, stop
            if kept is not None:
                data, kept_stamps_ns, kept_ends = kept.unpack(len(self._body))
                self._body += data
                self._ends += kept_ends
                self.stamps_ns += kept_stamps_ns
        self._kept.clear()

    # the head

    def _frame_head(self, data: bytes) -> None:
        head, parser = self._head, self._parser
        assert parser is not None  # noqa: S101
        while data:
            old = len(head.raw)
            head.raw += data
            blank = head.raw.find(b"\r\n\r\n", max(0, old - 3))
            end = len(head.raw) if blank < 0 else blank + 4
            _parse(parser, bytes(head.raw[old:end]))
            data = bytes(head.raw[end:])
            if head.complete:
                status = int(parser.get_status_code())
                if not 100 <= status < 200:
                    self._end_head(parser, status)
                    self._begin_body(data)
                    return
                head.raw.clear()
                head.headers.clear()
                head.complete = False

    def _end_head(self, parser: httptools.HttpResponseParser, status: int) -> None:
        self.status = status
        self.headers_read = len(self.stamps_ns) - 1
        self.keep_alive = bool(parser.should_keep_alive())
        self._parser = None
        self._head.raw.clear()

    def _begin_body(self, data: bytes) -> None:
        length = self.headers.get(b"content-length", b"").strip()
        coding = self.headers.get(b"transfer-encoding", b"").lower().rsplit(b",", 1)[-1].strip()
        if self.status in (204, 304):
            self._left = 0
        elif coding == b"chunked":
            self.chunked = True
        elif length.isdigit() and not coding:
            self._left = int(length)
        if data or self._left == 0:
            self._frame_body(data)

    # the body

    def _frame_body(self, data: bytes) -> None:
        if self.chunked:
            self._frame_chunks(data)
        elif self._left is None:
            self._body += data
        else:
            self._body += data[: self._left]
            self._left -= len(data)
            if self._left <= 0:
                self.complete, self.surplus = True, self._left < 0

    def _frame_chunks(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
            self._rest = b""
        left, at = self._left, 0
        self._left = None
        while True:
            if left is None:
                line = _CHUNK.match(data, at)
                if line is None:
                    self._begin_line(data, at)
                    return
                left = int(line[1], 16)
                if not left:
                    self._frame_trailer(data, at, line.end())
                    return
                at = line.end()
            stop = at + left
            self._body += data[at:stop]
            if not data.startswith(b"\r\n", stop):
                self._stop_within(data, stop)
                return
            left, at = None, stop + 2

    def _begin_line(self, data: bytes, at: int) -> None:
        """The line with a chunk's size is not whole."""
        if not _CHUNK_BEGUN.fullmatch(data, at) or len(data) - at > _MAX_LINE_BYTES:
            raise ProtocolError("a chunk begins without a valid size")
        self._rest = data[at:]

    def _stop_within(self, data: bytes, stop: int) -> None:
        """``data`` ends in a chunk, or in the line end behind it."""
        closing = data[stop : stop + 2]
        if closing not in (b"", b"\r"):
            raise ProtocolError("a chunk is longer than its size says")
        self._left, self._rest = max(0, stop - len(data)), closing

    def _frame_trailer(self, data: bytes, last_chunk: int, at: int) -> None:
        while line := _TRAILER.match(data, at):
            at = line.end()
        if data.startswith(b"\r\n", at):
            self.complete, self.surplus = True, len(data) > at + 2
            return
        self._rest = data[last_chunk:]
        if data.find(b"\r\n", at) >= 0 or len(self._rest) > _MAX_TRAILER_BYTES:
            raise ProtocolError("what follows the last chunk is no header line")


def _parse(parser: httptools.HttpResponseParser, data: bytes) -> None:
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        raise ProtocolError("101 Switching Protocols was not asked for") from None
    except httptools.HttpParserError as error:
        cause = error.__context__
        raise ProtocolError(str(cause if isinstance(cause, ProtocolError) else error)) from None
