"""Non-blocking connections: TCP, and TLS through memory buffers."""

import errno
import os
import re
import socket
import ssl
from dataclasses import dataclass
from enum import Enum, auto
from time import monotonic_ns

from runners.address import Endpoint, Pinned
from runners.load.exchange import Exchange
from runners.load.outcomes import Outcome
from runners.load.receiver import SO_TIMESTAMPNS

READ_BYTES = 65_536
_PROXY_HEAD_BYTES = 16_384
_TUNNEL_OPEN = re.compile(r"HTTP/1\.[01] 2\d\d(\s|$)")

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
_SATURATED_WORDS = {
    errno.EMFILE: "this process may open no more files: raise the limit (ulimit -n) or lower the concurrency",
    errno.ENFILE: "this machine may open no more files: raise fs.file-max or lower the concurrency",
    errno.EADDRNOTAVAIL: "no local port is left: widen net.ipv4.ip_local_port_range or reuse connections",
}
_TLS_REASONS = {
    10: "expired: the certificate's date has passed",
    18: "self_signed: the certificate is signed by itself",
    19: "self_signed: the chain ends in a certificate that is not trusted here",
    20: "unknown_issuer: the chain is incomplete or its issuer is not trusted here",
    62: "hostname: the certificate is for another host",
    64: "hostname: the certificate is for another address",
}


class TransportError(Exception):
    """Ends the exchange with an outcome."""

    def __init__(self, outcome: Outcome, detail: str) -> None:
        super().__init__(detail)
        self.outcome = outcome
        self.detail = detail


@dataclass
class Destination:
    """Where requests go: addresses resolved and checked once, so that what was checked is what is contacted.

    The addresses are the proxy's where there is one. ``preferred`` is the one that answered last: each connection
    tries it first, then the others.
    """

    endpoint: Endpoint
    addresses: tuple[Pinned, ...]
    tls: ssl.SSLContext | None = None
    proxy: Endpoint | None = None
    preferred: int = 0


def connect_error(error: OSError) -> TransportError:
    if error.errno in _EXHAUSTED:
        return TransportError(Outcome.CLIENT_SATURATED, _SATURATED_WORDS.get(error.errno or 0, str(error.strerror)))
    if error.errno == errno.ECONNREFUSED:
        return TransportError(Outcome.CONNECT_REFUSED, "connection refused")
    if error.errno == errno.ETIMEDOUT:
        return TransportError(Outcome.TIMEOUT_CONNECT, "the network gave up connecting")
    return TransportError(Outcome.CONNECT_FAILED, str(error.strerror or error))


def tls_error(error: ssl.SSLError) -> TransportError:
    """tls_error with a reason of one word first, then words for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = _TLS_REASONS.get(error.verify_code, f"certificate: {error.verify_message}")
    else:
        name = (error.reason or "").upper()
        if "WRONG_VERSION_NUMBER" in name or "HTTP_REQUEST" in name or "RECORD_LAYER" in name:
            reason = "wrong_version_number: the port does not speak TLS; is it http, not https?"
        elif "VERSION" in name or "UNSUPPORTED_PROTOCOL" in name:
            reason = "version: the server speaks only TLS versions that are no longer safe"
        elif "CERTIFICATE_REQUIRED" in name or "HANDSHAKE_FAILURE" in name:
            reason = "client_cert: the server wants a client certificate, or shares no cipher"
        else:
            reason = f"handshake: {name.lower().replace('_', ' ') or 'failed'}"
    return TransportError(Outcome.TLS_ERROR, reason)


class Progress(Enum):
    """What ``Connection.proceed`` came to. MOVED: the next address is tried on a new file descriptor."""

    READY = auto()
    WAITING = auto()
    MOVED = auto()


class Connection:
    """One socket. ``open`` is false while TCP or TLS is still being set up."""

    __slots__ = (
        "_incoming",
        "_index",
        "_outgoing",
        "_proxy_head",
        "_tls",
        "_tried",
        "_tunnelled",
        "address",
        "destination",
        "exchange",
        "fd",
        "open",
        "reused",
        "sock",
        "started_ns",
        "tried_ns",
        "want_write",
        "watched_write",
    )

    def __init__(self, destination: Destination) -> None:
        self.destination = destination
        self.exchange: Exchange | None = None
        self.open = False
        self.reused = False
        self.started_ns = monotonic_ns()
        self._index = destination.preferred
        self._tried = 1
        self._connect()

    def _connect(self) -> None:
        """Begins the TCP connection to the present address. Raises TransportError."""
        self.tried_ns = monotonic_ns()
        self.want_write = self.watched_write = True
        self._tls: ssl.SSLObject | None = None
        self._tunnelled = self.destination.proxy is None
        self._proxy_head = b""
        family, sockaddr = self.destination.addresses[self._index]
        self.address = str(sockaddr[0])
        try:
            self.sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            self._fail_or_move(error.errno or 0)
            return
        self.fd = self.sock.fileno()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        code = self.sock.connect_ex(sockaddr)
        if code not in (0, errno.EINPROGRESS):
            self.sock.close()
            self._fail_or_move(code)

    @property
    def encrypted(self) -> bool:
        return self._tls is not None

    @property
    def has_another_address(self) -> bool:
        return self._tried < len(self.destination.addresses)

    def move(self) -> Progress:
        """Begins anew with the next address, on a new file descriptor. Raises TransportError."""
        self.sock.close()
        self._next_address()
        return Progress.MOVED

    def _next_address(self) -> None:
        self._tried += 1
        self._index = (self._index + 1) % len(self.destination.addresses)
        self._connect()

    def _fail_or_move(self, code: int) -> None:
        """The present address cannot be connected to: the next, or TransportError."""
        error = connect_error(OSError(code, os.strerror(code)))
        if error.outcome is Outcome.CLIENT_SATURATED:
            raise error
        if not self.has_another_address:
            if self.destination.proxy:
                raise TransportError(Outcome.PROXY_ERROR, f"the proxy cannot be reached: {error.detail}")
            raise error
        self._next_address()

    def proceed(self) -> Progress:
        """Goes on with the set-up. Raises TransportError."""
        if self._tls is None:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self.sock.close()
                self._fail_or_move(code)
                return Progress.MOVED
            if not self._tunnelled and not self._tunnel():
                return Progress.WAITING
            if self.destination.tls is None:
                return self._ready()
            self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            self._tls = self.destination.tls.wrap_bio(
                self._incoming, self._outgoing, server_hostname=self.destination.endpoint.host
            )
        return self._ready() if self._handshake(self._tls) else Progress.WAITING

    def _ready(self) -> Progress:
        self.destination.preferred = self._index
        self.open = True
        self.want_write = self._tls is not None and self.want_write
        return Progress.READY

    def _tunnel(self) -> bool:
        """Asks the proxy for a connection to the endpoint; True once it stands."""
        endpoint = self.destination.endpoint
        try:
            if not self._proxy_head and self.want_write:
                place = f"{f'[{endpoint.host}]' if ':' in endpoint.host else endpoint.host}:{endpoint.port}"
                self.sock.send(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n\r\n".encode("ascii"))
                self.want_write = False
                return False
            data = self.sock.recv(_PROXY_HEAD_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            raise TransportError(Outcome.PROXY_ERROR, f"the proxy broke the connection: {error.strerror}") from None
        self._proxy_head += data
        if not data or len(self._proxy_head) > _PROXY_HEAD_BYTES:
            raise TransportError(Outcome.PROXY_ERROR, "the proxy's answer to CONNECT is not whole")
        if b"\r\n\r\n" not in self._proxy_head:
            return False
        status = self._proxy_head.split(b"\r\n", 1)[0].decode("latin-1")
        if not _TUNNEL_OPEN.match(status):
            raise TransportError(Outcome.PROXY_ERROR, f"the proxy answered CONNECT with {status[:100]}")
        self._tunnelled = True
        return True

    def _handshake(self, tls: ssl.SSLObject) -> bool:
        self._pull_ciphertext()
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            raise tls_error(error) from None
        finally:
            self._push_ciphertext()
        return True

    def _pull_ciphertext(self) -> None:
        try:
            data = self.sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise TransportError(Outcome.TLS_ERROR, f"handshake: {error.strerror}") from None
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    def _push_ciphertext(self) -> None:
        pending = self._outgoing.read()
        sent = 0
        try:
            sent = self.sock.send(pending) if pending else 0
        except (BlockingIOError, OSError):
            sent = 0
        if sent < len(pending):  # put the rest back in front
            rest = pending[sent:] + self._outgoing.read()
            self._outgoing.write(rest)
        self.want_write = sent < len(pending)

    def send(self, data: memoryview) -> int:
        """Bytes taken; 0 when the socket is full. Raises OSError when the connection is dead."""
        if self._tls is None:
            try:
                return self.sock.send(data)
            except BlockingIOError:
                return 0
        if self._outgoing.pending:
            self._push_ciphertext()
            if self._outgoing.pending:
                return 0
        taken = self._tls.write(data)
        self._push_ciphertext()
        return taken

    def flushed(self) -> bool:
        """True when nothing waits to go out beneath TLS."""
        if self._tls is None or not self._outgoing.pending:
            return True
        self._push_ciphertext()
        return not self._outgoing.pending

    def plaintext(self, data: bytes) -> tuple[bytes, bool]:
        """What was received, beneath TLS; and whether it is the end. Raises TransportError on a broken TLS stream."""
        if self._tls is None:
            return data, not data
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        pieces: list[bytes] = []
        try:
            while piece := self._tls.read(READ_BYTES):
                pieces.append(piece)
                if not self._incoming.pending and not self._tls.pending():
                    return b"".join(pieces), False
            return b"".join(pieces), True
        except ssl.SSLWantReadError:
            return b"".join(pieces), False
        except ssl.SSLError as error:
            if pieces:
                return b"".join(pieces), True
            raise tls_error(error) from None

    def close(self) -> None:
        self.sock.close()
