"""One connection from a client: its requests one after the other, their answers byte by byte."""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import httptools
import orjson

from runners.router.upstream import Connection

#: Headers that concern one connection only, and those that the router writes itself.
_OWN = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding", b"upgrade", b"expect",
     b"content-length", b"host")
)  # fmt: skip
MAX_BODY_BYTES = 64 * 1024 * 1024
#: Of SO_LINGER: closing sends a reset, which no reader takes for the end of an answer.
_RESET = struct.pack("ii", 1, 0)
_REASONS = {200: "OK", 400: "Bad Request", 413: "Content Too Large", 501: "Not Implemented", 502: "Bad Gateway"}


@dataclass(frozen=True)
class Request:
    """``version``: of HTTP; the upstream is asked in the same, so that its answer has a form that the client reads."""

    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""
    version: str = "1.1"
    keep_alive: bool = True

    def to_upstream(self, host: str, body: bytes) -> bytes:
        """As bytes for that upstream, whatever connection the client keeps."""
        first = f"{self.method} {self.path} HTTP/{self.version}"
        lines = [first.encode("latin-1"), b"Host: %b" % host.encode()]
        lines += [b"%b: %b" % header for header in self.headers if header[0].lower() not in _OWN]
        if body or self.method != "GET":
            lines.append(b"Content-Length: %d" % len(body))
        return b"\r\n".join([*lines, b"", body])


class Client(asyncio.Protocol):
    """``answered``: whether anything of the present answer has been sent."""

    def __init__(self, serve: Callable[[Request, "Client"], Awaitable[None]]) -> None:
        self.answered = False
        self._serve = serve
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting: deque[Request] = deque()
        self._source: Connection | None = None
        self._full = False
        self._parser = httptools.HttpRequestParser(self)
        self._refused = 0
        self._clear()

    def pass_on(self, data: bytes) -> None:
        """Sends at once what an upstream answered."""
        self.answered = True
        if self._transport is not None:
            self._transport.write(data)

    def answer(self, status: int, content: str | bytes, kind: str = "application/json") -> None:
        """An answer of the router's own; a text is an error in OpenAI's form."""
        error = {"error": {"message": content, "type": "router_error", "code": status}}
        body = orjson.dumps(error) if isinstance(content, str) else content
        head = f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.pass_on(head.encode() + body)

    def comes_from(self, connection: Connection) -> None:
        """Whose bytes wait while the client takes none."""
        self._source = connection
        if self._full:
            connection.pause(paused=True)

    def close(self, *, broken: bool = False) -> None:
        """``broken``: what was sent is not whole, and must not look so."""
        self._waiting.clear()
        if self._transport is None:
            return
        if broken:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        else:
            self._transport.close()

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self._task is None:
                self.answer(self._refused or 400, f"this request cannot be read: {error.__context__ or error}")
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()  # nobody waits for the answer: the upstream may stop

    def pause_writing(self) -> None:
        self._full = True
        if self._source is not None:
            self._source.pause(paused=True)

    def resume_writing(self) -> None:
        self._full = False
        if self._source is not None:
            self._source.pause(paused=False)

    # llhttp's callbacks

    def _clear(self) -> None:
        self._path = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    def on_message_begin(self) -> None:
        self._clear()

    def on_url(self, piece: bytes) -> None:
        self._path += piece

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._parser.should_upgrade():
            self._refused = 501
            raise ValueError("it asks for another protocol than HTTP/1.1")
        waits = any(name.lower() == b"expect" for name, _ in self._headers)
        if waits and self._task is None and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, piece: bytes) -> None:
        self._body += piece
        if len(self._body) > MAX_BODY_BYTES:
            self._refused = 413
            raise ValueError(f"it is larger than {MAX_BODY_BYTES} bytes")

    def on_message_complete(self) -> None:
        parser, path = self._parser, self._path.decode("latin-1")
        method, version, keep = parser.get_method().decode(), parser.get_http_version(), parser.should_keep_alive()
        self._waiting.append(Request(method, path, tuple(self._headers), bytes(self._body), version, bool(keep)))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._answer_all())

    async def _answer_all(self) -> None:
        try:
            while self._waiting:
                request = self._waiting.popleft()
                self.answered = False
                await self._serve(request, self)
                self._source = None
                if not request.keep_alive:
                    self.close()
        except Exception:
            self.close(broken=True)
            raise
        finally:
            self._task = None
