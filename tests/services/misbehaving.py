"""A server that answers as told by the request's model name: the one seam where servers must misbehave."""

import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress


class Wire:
    """What a script has in hand: one accepted connection with its request read."""

    def __init__(self, sock: socket.socket, request: dict[str, object] | None = None) -> None:
        self.sock = sock
        self.request = request or {}

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)

    def head(
        self, *headers: str, status: str = "200 OK", kind: str | None = "text/event-stream", chunked: bool = True
    ) -> None:
        lines = [f"HTTP/1.1 {status}"]
        lines += [f"Content-Type: {kind}"] if kind else []
        lines += ["Transfer-Encoding: chunked"] if chunked else []
        self.raw(("\r\n".join([*lines, *headers]) + "\r\n\r\n").encode("latin-1"))

    def chunk(self, data: bytes) -> None:
        self.raw(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, data: object, end: bytes = b"\n\n") -> None:
        text = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.chunk(b"data: " + text + end)

    def words(self, *texts: str, pause_s: float = 0.0) -> None:
        for text in texts:
            self.event(content(text))
            time.sleep(pause_s)

    def finish(self, tokens: int = 2, reason: str = "stop") -> None:
        """Finish reason, usage, [DONE] and the last chunk."""
        self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "model": "m"})
        self.event({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": tokens}})
        self.done()

    def done(self) -> None:
        self.event(b"[DONE]")
        self.end()

    def end(self) -> None:
        self.raw(b"0\r\n\r\n")

    def body(self, data: bytes, *headers: str, status: str = "200 OK", kind: str = "application/json") -> None:
        self.head(f"Content-Length: {len(data)}", *headers, status=status, kind=kind, chunked=False)
        self.raw(data)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def content(text: str, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text, **more}, "finish_reason": None}]}


Script = Callable[[Wire], None]


class Server:
    """Answers every POST with ``scripts[model]`` and closes unless the script leaves the connection usable.

    Requests that name no model, in the body or in the path, get the first script.
    """

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.scripts = scripts
        self.requests: list[dict[str, object]] = []
        self.heads: list[bytes] = []
        self.in_flight = 0
        self.peak_in_flight = 0
        self.connections = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._open: set[socket.socket] = set()
        self.accept_from(self._listener)

    def accept_from(self, listener: socket.socket) -> None:
        """Serves connections to this listener too."""
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def page(self, wire: Wire, head: bytes) -> None:
        """Answers a GET."""
        wire.body(b'{"data": [{"id": "m"}]}' if b"/models" in head else b"{}")

    def close(self) -> None:
        self._listener.close()
        for sock in list(self._open):
            with suppress(OSError):
                sock.close()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add(sock)
            self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with suppress(OSError, ValueError):
            while self._answer(sock):
                pass
        with suppress(OSError):
            sock.close()
        self._open.discard(sock)

    def _answer(self, sock: socket.socket) -> bool:
        head, _, rest = self._read_head(sock)
        if not head:
            return False
        if head.startswith(b"GET"):
            self.page(Wire(sock), head)
            return True
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(rest) < length:
            rest += sock.recv(65536)
        request = json.loads(rest)
        if b"/tokenize" in head.split(b"\r\n")[0]:
            Wire(sock).body(b"{}", status="404 Not Found")
            return True
        with self._lock:
            self.requests.append(request)
            self.heads.append(head)
            self.in_flight += 1
            self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        model = request.get("model") or self._in_path(head) or next(iter(self.scripts))
        try:
            self.scripts[model](Wire(sock, request))
        finally:
            with self._lock:
                self.in_flight -= 1
        return sock.fileno() >= 0 and model.endswith("keep")

    @staticmethod
    def _in_path(head: bytes) -> str:
        found = re.search(rb" /\S*/models/([^/ ]+)/", head.split(b"\r\n")[0])
        return found[1].decode() if found else ""

    @staticmethod
    def _read_head(sock: socket.socket) -> tuple[bytes, bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = sock.recv(65536)
            if not piece:
                return b"", b"", b""
            data += piece
            if data[:1] == b"\x16":  # a TLS greeting: answered in plain HTTP, as servers do
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                return b"", b"", b""
        return data.partition(b"\r\n\r\n")


@contextmanager
def serving(scripts: dict[str, Script]):
    server = Server(scripts)
    try:
        yield server
    finally:
        server.close()


# scripts that several tests use


def good(wire: Wire) -> None:
    wire.head()
    wire.words("a", "b")
    wire.finish()


class Ledger:
    """Requests that a client can know to be in flight: one leaves before the last bytes of its answer go out.

    None but a warm-up is answered before `awaited` were in flight at once, 20 s at most: how long a server's threads
    take to start is the machine's affair, how many requests a client keeps in flight is not.
    """

    def __init__(self, awaited: int = 0) -> None:
        self.awaited = awaited
        self.now = self.peak = 0
        self._changed = threading.Condition()

    @contextmanager
    def holds(self, wire: Wire):
        with self._changed:
            self.now += 1
            self.peak = max(self.peak, self.now)
            self._changed.notify_all()
            if wire.request["max_tokens"] > 2:
                self._changed.wait_for(lambda: self.peak >= self.awaited, 20)
        try:
            yield
        finally:
            with self._changed:
                self.now -= 1

    def script(self, seconds: float) -> Script:
        """Two words, so long apart, with the request in the ledger up to the second."""

        def answer(wire: Wire) -> None:
            with self.holds(wire):
                wire.head()
                wire.event(content("a"))
                time.sleep(seconds)
            wire.words("b")
            wire.finish()

        return answer


def silent(wire: Wire) -> None:
    time.sleep(0.8)


def hang_mid_stream(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    time.sleep(1.0)


def json_body(data: object, status: str = "200 OK", kind: str = "application/json", *headers: str):
    text = data if isinstance(data, bytes) else json.dumps(data).encode()
    return lambda wire: wire.body(text, *headers, status=status, kind=kind)


def event_stream(text: bytes, *headers: str) -> Script:
    """A whole close-delimited stream in one write."""

    def script(wire: Wire) -> None:
        wire.head("Connection: close", *headers, chunked=False)
        wire.raw(text)

    return script


class Counting:
    """Counts words as tokens, behind a template of 5 and 3 a message more, and keeps every prompt in a prefix cache.

    Answers with as many tokens as were asked for, ``answer_s`` later.
    """

    TEMPLATE, MESSAGE = 5, 3

    def __init__(self, answer_s: float = 0.0) -> None:
        self.answer_s = answer_s
        self._seen: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, wire: Wire) -> None:
        words = tuple(word for message in wire.request["messages"] for word in message["content"].split())
        tokens = self.TEMPLATE + len(words) + self.MESSAGE * (len(wire.request["messages"]) - 1)
        cached = self._cached(words)
        time.sleep(self.answer_s)
        count = wire.request["max_tokens"]
        wire.head()
        wire.words(*["word "] * count)
        wire.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}], "model": wire.request["model"]})
        details = {"cached_tokens": cached}
        usage = {"prompt_tokens": tokens, "completion_tokens": count, "prompt_tokens_details": details}
        wire.event({"choices": [], "usage": usage})
        wire.done()

    def _cached(self, words: tuple[str, ...]) -> int:
        with self._lock:
            hashes = [hash(words[:length]) for length in range(1, len(words) + 1)]
            known = next((i for i, found in enumerate(hashes) if found not in self._seen), len(words))
            self._seen.update(hashes)
        return known + self.TEMPLATE
