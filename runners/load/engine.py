"""The event loop: sends on time, stamps and stores what comes back, and leaves the reading for later.

One thread, one epoll. While requests are in flight the loop only sends, receives and stamps; finished exchanges wait in
``finished`` and are handed to ``on_finished`` when nothing else is due.
"""

import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns

from runners.load.arrivals import Pacing
from runners.load.clock import Alarm, KernelClock
from runners.load.exchange import Exchange
from runners.load.framing import ProtocolError, Response, TooManyBytes
from runners.load.outcomes import Outcome
from runners.load.patience import Patience
from runners.load.precedence import precedence, waited_ns
from runners.load.transport import Connection, Destination, Progress, TransportError
from runners.spec import Timeouts

_ONLY_READABLE = select.EPOLLIN
_READABLE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLERR | select.EPOLLHUP
_SCAN_EVERY_NS = 50_000_000
_MAX_WAITING = 2_048
_MAX_WAITING_BYTES = 16_000_000
_DELAYS_KEPT = 65_536
_IDLE_WAIT_S = 0.05
#: So long may sending, and so many events may be served, before what has arrived is read: of packets that wait together
#: only the last one's stamp is kept.
_BURST_NS, _EVENTS_AT_ONCE = 300_000, 64
#: Too many requests, or no money left: only the answer's text tells, so it is read before others.
_MAY_STOP_THE_RUN = 429


class Engine:
    """Drives one destination. Use one per run; ``drive`` once per stage. Set ``resend`` to False where each request
    costs money: one whose kept connection died is then not sent again.
    """

    def __init__(self, destination: Destination, timeouts: Timeouts, on_finished: Callable[[Exchange], None]) -> None:
        self.clock = KernelClock()
        self.resend = True
        self.stop_reason = ""
        self.in_flight = 0
        self.read_delays_ns: deque[int] = deque(maxlen=_DELAYS_KEPT)
        self.asleep_ns = 0
        self.scheduled = "usual"
        self.waited_ns: int | None = None
        self._destination = destination
        self._timeouts = timeouts
        self._on_finished = on_finished
        self._epoll = select.epoll()
        self._alarm = Alarm()
        self._epoll.register(self._alarm.fd, select.EPOLLIN)
        self._connections: dict[int, Connection] = {}
        self._idle: list[Connection] = []
        self._finished: deque[Exchange] = deque()
        self._waiting_bytes = 0
        self._patience = Patience()
        self._next_scan_ns = 0

    def stop(self, reason: str) -> None:
        """Safe in a signal handler: no further request is sent, those in flight are cancelled within 50 ms."""
        self.stop_reason = self.stop_reason or reason

    def drive(
        self,
        pacing: Pacing,
        next_exchange: Callable[[bool], Exchange],
        *,
        drain_s: float,
        on_tick: Callable[[int], None] | None = None,
    ) -> None:
        """Sends what ``pacing`` asks for until it has ended and everything came back, at most ``drain_s`` later.

        ``next_exchange`` is told whether its request is load only and gives it.
        ``on_tick`` is called about twenty times a second, between sends.
        """
        self.asleep_ns = 0
        self.read_delays_ns.clear()
        with precedence() as self.scheduled:
            before_ns = waited_ns()
            self._loop(pacing, next_exchange, round(drain_s * 1e9), on_tick)
            after_ns = waited_ns()
        self.waited_ns = None if before_ns is None or after_ns is None else after_ns - before_ns
        while self._finished:
            self._hand_over()

    def close(self) -> None:
        for connection in list(self._connections.values()):
            self._drop(connection)
        self._alarm.close()
        self._epoll.close()

    # the loop

    def _loop(
        self,
        pacing: Pacing,
        next_exchange: Callable[[bool], Exchange],
        drain_ns: int,
        on_tick: Callable[[int], None] | None,
    ) -> None:
        drain_end_ns = 0
        now = monotonic_ns()
        while True:
            burst_end_ns = now + _BURST_NS
            due = None if self.stop_reason else pacing.next_due_ns(now, self.in_flight)
            while due is not None and due <= now < burst_end_ns:
                self._begin(pacing, next_exchange, now)
                now = monotonic_ns()
                due = None if self.stop_reason else pacing.next_due_ns(now, self.in_flight)
            if self.stop_reason or pacing.ended(now):
                drain_end_ns = drain_end_ns or now + drain_ns
                if not self.in_flight:
                    return
                if self.stop_reason or now >= drain_end_ns:
                    self._cancel_all(self.stop_reason or "the stage's drain time was over")
                    return
            now = self._wait(due)
            if now >= self._next_scan_ns:
                self._next_scan_ns = now + _SCAN_EVERY_NS
                self._check_timers(now)
                if on_tick:
                    on_tick(now)

    def _wait(self, due_ns: int | None) -> int:
        """One sleep and what woke it; reads finished exchanges when nothing did. Returns the time after it."""
        if due_ns is not None:
            self._alarm.set(due_ns)
        waiting = len(self._finished)
        before = monotonic_ns()
        events = self._epoll.poll(0 if waiting else _IDLE_WAIT_S, _EVENTS_AT_ONCE)
        now = monotonic_ns()
        self.asleep_ns += now - before
        self.clock.refresh(now)
        connections = self._connections
        for fd, mask in events:
            connection = connections.get(fd)
            if connection is None:
                if fd == self._alarm.fd:
                    self._alarm.clear()
            elif mask == _ONLY_READABLE and connection.open:
                self._read(connection)
            else:
                self._serve(connection, mask)
        if waiting and (not events or self._overdue(waiting)):
            self._hand_over()
        return monotonic_ns() if events or waiting else now

    def _overdue(self, waiting: int) -> bool:
        return (
            waiting > _MAX_WAITING
            or self._waiting_bytes > _MAX_WAITING_BYTES
            or self._finished[0].response.status == _MAY_STOP_THE_RUN
        )

    def _hand_over(self) -> None:
        exchange = self._finished.popleft()
        self._waiting_bytes -= exchange.response.bytes_in
        self._on_finished(exchange)

    def _serve(self, connection: Connection, mask: int) -> None:
        if not connection.open:
            self._proceed(connection)
            return
        if mask & select.EPOLLOUT:
            self._send(connection)
        if mask & _READABLE and connection.fd in self._connections:
            self._read(connection)

    # sending

    def _begin(self, pacing: Pacing, next_exchange: Callable[[bool], Exchange], now: int) -> None:
        due_ns, warmup = pacing.take(now)
        exchange = next_exchange(warmup)
        exchange.due_ns, exchange.warmup, exchange.ready_ns = due_ns, warmup, now
        self.in_flight += 1
        if self._idle:
            connection = self._idle.pop()
            connection.reused = True
            self._attach(connection, exchange)
        else:
            self._connect(exchange)

    def _connect(self, exchange: Exchange) -> None:
        try:
            connection = Connection(self._destination)
        except TransportError as error:
            self._end(exchange, error.outcome, error.detail)
            return
        connection.exchange = exchange
        exchange.connection = connection
        self._watch_new(connection)

    def _proceed(self, connection: Connection) -> None:
        fd, exchange = connection.fd, connection.exchange
        try:
            progress = connection.proceed()
        except TransportError as error:
            self._drop(connection)
            if exchange is not None:
                self._end(exchange, error.outcome, error.detail)
            return
        if progress is Progress.MOVED:
            self._moved(connection, fd)
        elif progress is Progress.READY and exchange is not None:
            exchange.connect_ns = (exchange.connect_ns or 0) + monotonic_ns() - connection.started_ns
            self._attach(connection, exchange)
        else:
            self._watch(connection)

    def _moved(self, connection: Connection, old_fd: int) -> None:
        """Another address, another descriptor; closing the old one took it out of epoll."""
        self._connections.pop(old_fd, None)
        self._watch_new(connection)

    def _watch_new(self, connection: Connection) -> None:
        self._connections[connection.fd] = connection
        self._epoll.register(connection.fd, select.EPOLLOUT | _READABLE)

    def _attach(self, connection: Connection, exchange: Exchange) -> None:
        connection.exchange = exchange
        exchange.connection = connection
        exchange.address = connection.address
        exchange.unsent = memoryview(exchange.request)
        if not exchange.sent_ns:
            exchange.sent_ns = exchange.last_read_ns = monotonic_ns()
        self._send(connection)

    def _send(self, connection: Connection) -> None:
        exchange = connection.exchange
        if exchange is None:
            return
        try:
            while exchange.unsent:
                taken = connection.send(exchange.unsent)
                if not taken:
                    break
                exchange.unsent = exchange.unsent[taken:]
            done = not exchange.unsent and connection.flushed()
        except OSError:
            # The server may have answered before it closed: what it said comes first.
            self._watch(connection, writing=False)
            return
        self._watch(connection, writing=not done)

    def _watch(self, connection: Connection, *, writing: bool | None = None) -> None:
        """Tells epoll what to wait for, only when that changes."""
        wanted = connection.want_write if writing is None else writing
        if not connection.open or wanted != connection.watched_write:
            connection.watched_write = wanted
            self._epoll.modify(connection.fd, (select.EPOLLOUT | _READABLE) if wanted else _READABLE)

    # receiving

    def _read(self, connection: Connection) -> None:
        exchange = connection.exchange
        try:
            stamp, now, data, end = connection.receive(self.clock)
        except (OSError, TransportError) as error:
            self._broken(connection, exchange, error)
            return
        if exchange is None:  # an idle connection was closed by the server, or it speaks unasked
            if data or end:
                self._drop(connection)
            return
        if data:
            exchange.last_read_ns = now
            self.read_delays_ns.append(now - stamp)
            try:
                complete = exchange.response.add(stamp, data)
            except ProtocolError as error:
                self._finish(connection, exchange, Outcome.PROTOCOL_ERROR, str(error))
                return
            except TooManyBytes:
                self._finish(connection, exchange, Outcome.TOO_LARGE, "the answer went over the size limit")
                return
            if complete:
                self._complete(connection, exchange)
                return
        if end:
            self._closed(connection, exchange)

    def _complete(self, connection: Connection, exchange: Exchange) -> None:
        response = exchange.response
        reusable = response.keep_alive and not response.surplus and not exchange.unsent
        connection.exchange = None
        if reusable:
            self._idle.append(connection)
        else:
            self._drop(connection)
        self._end(exchange, None)

    def _closed(self, connection: Connection, exchange: Exchange) -> None:
        response = exchange.response
        if not response.reads:
            if self._may_resend(connection, exchange):
                self._retry(connection, exchange)
                return
            self._finish(
                connection, exchange, Outcome.CLOSED_EARLY, "the server closed the connection without an answer"
            )
            return
        try:
            response.end_of_stream()
        except (ProtocolError, TooManyBytes) as error:
            self._finish(connection, exchange, Outcome.PROTOCOL_ERROR, str(error))
            return
        if response.complete:
            self._finish(connection, exchange, None)
        else:
            headers = response.headers_read is not None
            outcome = Outcome.TRUNCATED if headers else Outcome.CLOSED_EARLY
            self._finish(connection, exchange, outcome, "the connection closed before the answer was whole")

    def _broken(self, connection: Connection, exchange: Exchange | None, error: Exception) -> None:
        if exchange is None:
            self._drop(connection)
        elif not exchange.response.reads and self._may_resend(connection, exchange):
            self._retry(connection, exchange)
        elif isinstance(error, TransportError):
            self._finish(connection, exchange, error.outcome, error.detail)
        else:
            self._finish(connection, exchange, Outcome.RESET, "the connection was reset")

    def _may_resend(self, connection: Connection, exchange: Exchange) -> bool:
        return self.resend and connection.reused and not exchange.retried

    def _retry(self, connection: Connection, exchange: Exchange) -> None:
        """A kept connection died before any byte of the answer: once more on a fresh one; the clock goes on."""
        self._drop(connection)
        exchange.retried = True
        exchange.response.release()
        exchange.response = Response()
        self._connect(exchange)

    # ending

    def _finish(self, connection: Connection, exchange: Exchange, outcome: Outcome | None, detail: str = "") -> None:
        connection.exchange = None
        self._drop(connection)
        self._end(exchange, outcome, detail)

    def _end(self, exchange: Exchange, outcome: Outcome | None, detail: str = "") -> None:
        if outcome is not None:
            exchange.fail(outcome, detail)
        exchange.end_ns = exchange.response.reads[-1][0] if outcome is None else monotonic_ns()
        exchange.connection = None
        self.in_flight -= 1
        if exchange.response.status == _MAY_STOP_THE_RUN:
            self._finished.appendleft(exchange)
        else:
            self._finished.append(exchange)
        self._waiting_bytes += exchange.response.bytes_in
        if reason := self._patience.reason_to_stop(exchange):
            self.stop(reason)

    def _drop(self, connection: Connection) -> None:
        if self._connections.pop(connection.fd, None) is not None:
            with suppress(OSError):  # an address that failed has closed it already
                self._epoll.unregister(connection.fd)
        if connection in self._idle:
            self._idle.remove(connection)
        connection.close()

    def _cancel_all(self, reason: str) -> None:
        for connection in list(self._connections.values()):
            if connection.exchange is not None:
                self._finish(connection, connection.exchange, Outcome.CANCELLED, reason)

    def _check_timers(self, now: int) -> None:
        limits = self._timeouts
        for connection in list(self._connections.values()):
            exchange = connection.exchange
            if exchange is None:
                continue
            if not connection.open:
                self._check_connecting(connection, exchange, now)
            elif now - exchange.sent_ns > limits.total_s * 1e9:
                self._finish(connection, exchange, Outcome.TIMEOUT_TOTAL, f"not done in {limits.total_s:g} s")
            elif not exchange.response.reads:
                self._check_first_byte(connection, exchange, now)
            elif now - exchange.last_read_ns > limits.idle_s * 1e9:
                self._finish(connection, exchange, Outcome.TIMEOUT_IDLE, f"silent for {limits.idle_s:g} s")

    def _check_connecting(self, connection: Connection, exchange: Exchange, now: int) -> None:
        """Each address gets its share of the connect limit, so that one that swallows packets does not take all."""
        limit_s, fd = self._timeouts.connect_s, connection.fd
        share_ns = limit_s * 1e9 / len(self._destination.addresses)
        if now - connection.started_ns > limit_s * 1e9:
            self._finish(connection, exchange, Outcome.TIMEOUT_CONNECT, f"no connection in {limit_s:g} s")
        elif connection.has_another_address and now - connection.tried_ns > share_ns:
            try:
                connection.move()
            except TransportError as error:
                self._connections.pop(fd, None)
                self._end(exchange, error.outcome, error.detail)
                return
            self._moved(connection, fd)

    def _check_first_byte(self, connection: Connection, exchange: Exchange, now: int) -> None:
        limit_s = self._timeouts.first_byte_s
        if now - exchange.sent_ns <= limit_s * 1e9:
            return
        if exchange.unsent:
            self._finish(connection, exchange, Outcome.TIMEOUT_WRITE, f"the server took no bytes for {limit_s:g} s")
        else:
            self._finish(connection, exchange, Outcome.TIMEOUT_FIRST_BYTE, f"no byte came back in {limit_s:g} s")
