"""A forward proxy that tunnels with CONNECT, or refuses to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Proxy:
    """``status``: the answer to CONNECT; with 200 the tunnel stands. ``asked`` are the request lines."""

    def __init__(self, status: str = "200 Connection established") -> None:
        self.status = status
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(4096)
        line = head.split(b"\r\n")[0].decode()
        self.asked.append(line)
        client.sendall(f"HTTP/1.1 {self.status}\r\nX-Proxy: 1\r\n".encode())
        client.sendall(b"\r\n")
        if not self.status.startswith("200"):
            client.close()
            return
        host, _, port = line.split()[1].rpartition(":")
        server = socket.create_connection((host.strip("[]"), int(port)))
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def proxying(status: str = "200 Connection established") -> Iterator[Proxy]:
    proxy = Proxy(status)
    try:
        yield proxy
    finally:
        proxy.close()
