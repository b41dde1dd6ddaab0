"""A server that tells the truth about its own timing: what the engine is calibrated against.

It streams chat completions whose texts are stamps: each event says when it was handed to the socket, the first one also
when its request arrived (the kernel's stamp). Client and reference share CLOCK_MONOTONIC, so every event is a
measurement of the client's error. ``python -m runners.load.reference`` prints its port and ends when its input closes.
"""

import contextlib
import heapq
import select
import socket
import sys
from dataclasses import dataclass, field
from time import monotonic_ns

import orjson

from runners.load.alarm import Alarm
from runners.load.receiver import SO_TIMESTAMPNS, Received, Receiver

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
_BATCH = 64


@dataclass
class _Stream:
    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)
    arrival_ns: int = 0
    ttft_ns: int = 0
    itl_ns: int = 0
    tokens: int = 0
    sent: int = 0


def _event(text: str) -> bytes:
    data = b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text.encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


class Reference:
    """One thread, one epoll, a heap of due times."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # before a connection is accepted, too
        self.port = int(self._listener.getsockname()[1])
        self._alarm = Alarm()
        self._streams: dict[int, _Stream] = {}
        self._due: list[tuple[int, int, int]] = []  # due_ns, descriptor, arrival_ns
        self._epoll = select.epoll()
        for descriptor in (self._listener.fileno(), self._alarm.fd, 0):
            self._epoll.register(descriptor, select.EPOLLIN)
        self._receiver = Receiver(self._epoll.fileno())

    def serve(self) -> None:
        """Until standard input closes."""
        while True:
            now = monotonic_ns()
            behind = self._due and self._due[0][0] <= now
            if self._due and not behind:
                self._alarm.set(self._due[0][0])
            for received in self._receiver.wait(0 if behind else 1000, 0):
                if received.fd == 0:
                    return
                if received.fd == self._listener.fileno():
                    self._welcome()
                elif received.fd == self._alarm.fd:
                    self._alarm.clear()
                else:
                    self._receive(self._streams[received.fd], received)
            for _ in range(_BATCH):
                if not self._due or self._due[0][0] > monotonic_ns():
                    break
                self._send(*heapq.heappop(self._due))

    def _welcome(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self._listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._streams[sock.fileno()] = _Stream(sock)
                self._epoll.register(sock.fileno(), select.EPOLLIN)
                self._receiver.read_from(sock.fileno())

    def _receive(self, stream: _Stream, received: Received) -> None:
        if not received.data:
            self._drop(stream)
            return
        stream.received += received.data
        head, separator, body = bytes(stream.received).partition(b"\r\n\r\n")
        if not separator or len(body) < int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]):
            return
        asked = orjson.loads(body)
        stream.received.clear()
        stream.arrival_ns = received.stamp_ns
        stream.ttft_ns, stream.itl_ns = asked["ttft_ns"], asked["itl_ns"]
        stream.tokens, stream.sent = asked["max_tokens"], 0
        stream.sock.send(_HEAD)
        heapq.heappush(self._due, (stream.arrival_ns + stream.ttft_ns, stream.sock.fileno(), stream.arrival_ns))

    def _send(self, due_ns: int, descriptor: int, arrival_ns: int) -> None:
        stream = self._streams.get(descriptor)
        if stream is None or stream.arrival_ns != arrival_ns:
            return
        stream.sent += 1
        last = stream.sent == stream.tokens
        text = f"{monotonic_ns()}" if stream.sent > 1 else f"{arrival_ns} {monotonic_ns()}"
        try:
            stream.sock.send(_event(text) + (_END if last else b""))
        except OSError:
            self._drop(stream)
            return
        if not last:
            due_ns = arrival_ns + stream.ttft_ns + stream.sent * stream.itl_ns
            heapq.heappush(self._due, (due_ns, descriptor, arrival_ns))

    def _drop(self, stream: _Stream) -> None:
        self._epoll.unregister(stream.sock.fileno())
        self._receiver.forget(stream.sock.fileno())
        del self._streams[stream.sock.fileno()]
        stream.sock.close()


if __name__ == "__main__":
    reference = Reference()
    print(reference.port, flush=True)
    reference.serve()
    sys.exit(0)
