"""The HTTP side, on asyncio's streams: /v1/chat/completions, /v1/models and /health."""

import asyncio
import json
from collections.abc import Mapping

from gpu_server.batching import Batcher, Request
from gpu_server.wire import Answer, Asked, BadRequest, asked

_LIMIT_BYTES = 8 << 20
Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter


class Service:
    """Serves one batcher under the model name ``name``; a word of a prompt is a token of ``vocabulary``."""

    def __init__(self, batcher: Batcher, name: str, vocabulary: int, context: int) -> None:
        self._batcher = batcher
        self._name = name
        self._vocabulary = vocabulary
        self._context = context

    async def connection(self, reader: Reader, writer: Writer) -> None:
        try:
            while head := await _head(reader):
                method, path, headers = head
                length = int(headers.get("content-length", 0))
                body = await reader.readexactly(length) if 0 < length <= _LIMIT_BYTES else b""
                await self._answer(method, path, body, writer)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            writer.close()

    async def _answer(self, method: str, path: str, body: bytes, writer: Writer) -> None:
        if (method, path) == ("POST", "/v1/chat/completions"):
            await self._chat(body, writer)
        elif path == "/v1/models":
            _respond(writer, 200, {"object": "list", "data": [{"id": self._name, "object": "model"}]})
        elif path == "/health":
            failure = self._batcher.failure
            _respond(writer, 500 if failure else 200, {"failure": failure})
        else:
            _respond(writer, 404, {"error": {"message": f"there is no {method} {path} here"}})
        await writer.drain()

    async def _chat(self, body: bytes, writer: Writer) -> None:
        try:
            wanted = asked(body, self._vocabulary, self._context)
        except BadRequest as error:
            _respond(writer, 400, {"error": {"message": str(error), "type": "invalid_request_error"}})
            return
        if self._batcher.failure:
            _respond(writer, 500, {"error": {"message": self._batcher.failure}})
            return
        loop, tokens = asyncio.get_running_loop(), asyncio.Queue[int | None]()
        request = Request(
            wanted.tokens, wanted.max_tokens, lambda token: loop.call_soon_threadsafe(tokens.put_nowait, token)
        )
        self._batcher.submit(request)
        answer = Answer(wanted, self._name)
        try:
            await (self._stream if wanted.stream else self._whole)(wanted, answer, tokens, writer)
        finally:
            request.cancelled.set()

    async def _stream(self, wanted: Asked, answer: Answer, tokens: "asyncio.Queue[int | None]", writer: Writer) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(_chunk(answer.first()))
        count = 0
        while (token := await tokens.get()) is not None:
            count += 1
            writer.write(_chunk(answer.token(token)))
            await writer.drain()
        if last := answer.last(count):
            writer.write(_chunk(last) + b"0\r\n\r\n")
        else:
            writer.close()  # cut off: the missing last chunk tells

    async def _whole(self, wanted: Asked, answer: Answer, tokens: "asyncio.Queue[int | None]", writer: Writer) -> None:
        found = []
        while (token := await tokens.get()) is not None:
            found.append(token)
        if len(found) < wanted.max_tokens:
            _respond(writer, 500, {"error": {"message": self._batcher.failure or "the answer was cut off"}})
        else:
            _respond(writer, 200, answer.whole(found))


async def _head(reader: Reader) -> tuple[str, str, Mapping[str, str]] | None:
    """(method, path, headers); None at the end of the connection."""
    try:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = lines[0].split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return method, path.partition("?")[0], headers


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _respond(writer: Writer, status: int, data: bytes | Mapping[str, object]) -> None:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    head = f"HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)


async def serve(service: Service, host: str, port: int) -> asyncio.Server:
    return await asyncio.start_server(service.connection, host, port, backlog=1024, limit=_LIMIT_BYTES)
