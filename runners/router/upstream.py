"""Connections to the servers behind the router: kept alive, one answer at a time, bytes handed on as they come."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

import httptools

from runners.address import Endpoint

Sink = Callable[[bytes], None]
Taken = Callable[["Connection"], None]
_CONNECT_S = 10.0


def _nowhere(data: bytes) -> None:
    """Where bytes go that nobody wants."""


def _unpaused(connection: "Connection") -> None:
    """Of an answer that is taken as fast as it comes."""


class Gone(Exception):
    """The upstream refused, or ended before its answer was whole. The message says how."""


@dataclass
class Upstream:
    """``model``: its name there, put in the place of the request's; empty: requests go as they are."""

    name: str
    where: Endpoint
    model: str = ""
    in_flight: int = 0
    idle: list["Connection"] = field(default_factory=list)

    async def ask(self, request: bytes, sink: Sink, taken: Taken = _unpaused, body: Sink = _nowhere) -> bool:
        """``sink`` hears the answer as its bytes came, ``body`` what it holds, ``taken`` the connection, which may be
        paused. Gives whether the connection was kept. Raises Gone.
        """
        self.in_flight += 1
        try:
            while self.idle:
                connection = self.idle.pop()
                try:
                    return await self._on(connection, request, sink, taken, body)
                except Gone:  # it was closed while it lay idle
                    if connection.heard:
                        raise
            return await self._on(await self._connected(), request, sink, taken, body)
        finally:
            self.in_flight -= 1

    async def _on(self, connection: "Connection", request: bytes, sink: Sink, taken: Taken, body: Sink) -> bool:
        connection.pause(paused=False)
        taken(connection)
        try:
            kept = await connection.ask(request, sink, body)
        except BaseException:
            connection.close()
            raise
        if kept:
            self.idle.append(connection)
        else:
            connection.close()
        return kept

    async def _connected(self) -> "Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CONNECT_S):
                _, connection = await loop.create_connection(Connection, self.where.host, self.where.port)
        except TimeoutError:
            raise Gone(f"did not accept a connection within {_CONNECT_S:g} seconds") from None
        except OSError as error:
            raise Gone(f"cannot be reached ({error.strerror or error})") from None
        return connection


class Connection(asyncio.Protocol):
    """``heard``: whether anything of the present answer has come."""

    def __init__(self) -> None:
        self.heard = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bool] | None = None
        self._sink: Sink = _nowhere
        self._body: Sink = _nowhere
        self._parser = httptools.HttpResponseParser(self)
        self._framed = self._until_close = self._whole = self._kept = False

    async def ask(self, request: bytes, sink: Sink, body: Sink) -> bool:
        """Whether the connection may be used again. Raises Gone."""
        self._sink, self._body = sink, body
        self._parser = httptools.HttpResponseParser(self)
        self.heard = self._until_close = self._whole = False
        if self._transport is None or self._transport.is_closing():
            raise Gone("has closed the connection")
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._answer

    def pause(self, *, paused: bool) -> None:
        """Whether the upstream waits, because the client takes no more."""
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if paused else self._transport.resume_reading)()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # nothing was asked
            return
        self.heard = True
        self._sink(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if not self._whole:
                self._end(Gone(f"does not speak HTTP ({error})"))
        if self._whole:
            self._end(None, kept=self._kept)

    def connection_lost(self, error: Exception | None) -> None:
        if self._until_close and error is None:
            self._end(None, kept=False)
        else:
            when = "in the middle of its answer" if self.heard else "before it answered"
            self._end(Gone(f"closed the connection {when}"))

    def _end(self, error: Gone | None, *, kept: bool = False) -> None:
        if self._answer is None or self._answer.done():
            return
        if error is None:
            self._answer.set_result(kept)
        else:
            self._answer.set_exception(error)

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        self._until_close = self._framed = False
        self._kept = False  # what follows a whole answer belongs to nobody: the connection cannot be used again

    def on_header(self, name: bytes, value: bytes) -> None:
        self._framed = self._framed or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        self._until_close = not self._framed

    def on_body(self, body: bytes) -> None:
        self._body(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() >= 200 and not self._whole:
            self._whole, self._kept = True, bool(self._parser.should_keep_alive())
