"""The event loop: sends on time, stamps and stores what comes back, and leaves the reading for later.

One thread, one epoll. While requests are in flight the loop only sends, receives and stamps; finished exchanges wait in
``finished`` and are handed to ``on_finished`` when nothing else is due.
"""

from array import array
from collections.abc import Callable
from time import monotonic_ns

from runners.load.arrivals import Pacing
from runners.load.backlog import Backlog
from runners.load.exchange import Exchange
from runners.load.framing import ProtocolError, Response, TooManyBytes
from runners.load.hugepages import small_pages
from runners.load.outcomes import Outcome
from runners.load.patience import Patience
from runners.load.pool import Pool
from runners.load.precedence import precedence, waited_ns
from runners.load.receiver import KernelClock, Received
from runners.load.timers import next_limit, shortest_ns
from runners.load.transport import Connection, Destination, Progress, TransportError
from runners.load.watch import WRITABLE, Watch
from runners.spec import Timeouts

_SCAN_EVERY_NS = 100_000_000
_IDLE_WAIT_MS = 50
#: So long may sending take before what has arrived is read: of packets that wait together only the last one's stamp is
#: kept.
_BURST_NS = 300_000
#: So long does the place of an answer that ended stay empty, at most this part of what the last one took, while others
#: end: requests that go out close together bring back what comes close together. Where each event came by itself,
#: waking up for it would cost many times what reading it does.
_GATHER_NS, _GATHER_PART = 1_000_000, 1_000
#: So many requests wait until all of them have their new connections, too.
_OPEN_TOGETHER = 64


class Engine:
    """Drives one destination. Use one per run; ``drive`` once per stage. Set ``resend`` to False where each request
    costs money: one whose kept connection died is then not sent again.
    """

    def __init__(self, destination: Destination, timeouts: Timeouts, on_finished: Callable[[Exchange], None]) -> None:
        self.resend = True
        self.stop_reason = ""
        self.in_flight = 0
        self.asleep_ns = 0
        self.scheduled = "usual"
        self.waited_ns: int | None = None
        self._destination = destination
        self._timeouts = timeouts
        self._on_finished = on_finished
        self._watch = Watch()
        self._pool = Pool(destination, self._watch)
        self._gather_ns = _GATHER_NS
        self._finished = Backlog()
        self._patience = Patience()
        self._next_scan_ns = 0
        self._look_ns = 0
        self._limit_ns = 0.0
        self._pacing: Pacing | None = None

    def stop(self, reason: str) -> None:
        """Safe in a signal handler: no further request is sent, those in flight are cancelled within 100 ms."""
        self.stop_reason = self.stop_reason or reason
        self._look_ns = 0

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
        ``on_tick`` is called about ten times a second, between sends.
        """
        receiver = self._watch.receiver
        receiver.forget_delays()
        asleep_ns = receiver.asleep_ns
        self._look_ns = 0
        self._pacing = pacing
        self._finished.hurry = pacing.follows
        with small_pages(), precedence() as self.scheduled:
            before_ns = waited_ns()
            self._loop(pacing, next_exchange, round(drain_s * 1e9), on_tick)
            after_ns = waited_ns()
        self.asleep_ns = receiver.asleep_ns - asleep_ns
        self.waited_ns = None if before_ns is None or after_ns is None else after_ns - before_ns
        while self._finished:
            self._hand_over()

    @property
    def clock(self) -> KernelClock:
        return self._watch.receiver.clock

    def read_delays_ns(self) -> "array[int]":
        """How long after the kernel's stamps this stage's reads came; of many the last."""
        return self._watch.receiver.delays_ns()

    def close(self) -> None:
        for connection in list(self._watch.connections.values()):
            self._pool.drop(connection)
        self._watch.close()

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
            if now >= self._look_ns:
                now = self._send_due(pacing, next_exchange, now)
                if self.stop_reason or pacing.ended(now):
                    drain_end_ns = drain_end_ns or now + drain_ns
                    if not self.in_flight:
                        return
                    if self.stop_reason or now >= drain_end_ns:
                        self._cancel_all(self.stop_reason or "the stage's drain time was over")
                        return
                if now >= self._next_scan_ns:
                    self._next_scan_ns = now + _SCAN_EVERY_NS
                    if now >= self._limit_ns:
                        self._check_timers(now)
                    if on_tick:
                        on_tick(now)
            now = self._wait(now)

    def _send_due(self, pacing: Pacing, next_exchange: Callable[[bool], Exchange], now: int) -> int:
        """Sends what is due; sets when to look again, unless an exchange ends before. Returns the time after it."""
        burst_end_ns = now + _BURST_NS
        self._look_ns = self._next_scan_ns
        while not self.stop_reason:
            due = pacing.next_due_ns(now, self.in_flight)
            if due is None:
                break
            if due > now or now >= burst_end_ns:
                self._look_ns = min(due, self._next_scan_ns)
                self._watch.wake_at(due)
                break
            self._begin(pacing, next_exchange, now)
            now = monotonic_ns()
        if self._look_ns > now or now >= self._next_scan_ns or len(self._pool.opened) >= _OPEN_TOGETHER:
            self._send_opened()
        return now

    def _send_opened(self) -> None:
        """Sends the requests for which new connections stand."""
        opened, self._pool.opened = self._pool.opened, []
        for connection in opened:
            if connection.exchange is not None and not self.stop_reason:
                self._attach(connection, connection.exchange)

    def _wait(self, now: int) -> int:
        """One sleep and what woke it; reads finished exchanges when nothing did. Returns the time after it."""
        receiver, due_ns, read_at_ns = self._watch.receiver, self._look_ns, self._finished.read_at_ns
        reads = now >= read_at_ns
        if reads:
            events = receiver.wait(0, 0)
        else:
            wait_ms = min(_IDLE_WAIT_MS, (read_at_ns - now) / 1e6 + 1)
            events = receiver.wait(int(wait_ms), int(min(due_ns, read_at_ns)), self._gather_ns)
        for received in events:
            connection = self._watch.connections.get(received.fd)
            if connection is None:
                self._watch.ring(received.fd)
            else:
                self._serve(connection, received)
        if reads and receiver.idle:
            self._hand_over()
        while self._finished.pressing:
            self._hand_over()
        return monotonic_ns()

    def _hand_over(self) -> None:
        self._on_finished(self._finished.take())
        self._look_ns = 0

    def _serve(self, connection: Connection, received: Received) -> None:
        if not connection.open:
            self._set_up(connection, connection.proceed)
            return
        if received.mask & WRITABLE:
            self._send(connection)
        if received.data is not None and connection.fd in self._watch.connections:
            self._read(connection, received, received.data)

    # sending

    def _begin(self, pacing: Pacing, next_exchange: Callable[[bool], Exchange], now: int) -> None:
        due_ns, warmup = pacing.take(now)
        exchange = next_exchange(warmup)
        exchange.due_ns, exchange.warmup, exchange.ready_ns = due_ns, warmup, now
        self.in_flight += 1
        connection = self._pool.reuse()
        if connection is None:
            self._connect(exchange)
        else:
            self._attach(connection, exchange)

    def _connect(self, exchange: Exchange) -> None:
        try:
            self._pool.open(exchange)
        except TransportError as error:
            self._end(exchange, error.outcome, error.detail)

    def _set_up(self, connection: Connection, step: Callable[[], Progress]) -> None:
        """Goes on with connecting by one ``step`` of the connection."""
        exchange = connection.exchange
        try:
            self._pool.set_up(connection, step)
        except TransportError as error:
            if exchange is not None:
                self._end(exchange, error.outcome, error.detail)
        self._look_ns = 0

    def _attach(self, connection: Connection, exchange: Exchange) -> None:
        connection.exchange = exchange
        exchange.address = connection.address
        exchange.unsent = memoryview(exchange.request)
        if not exchange.sent_ns:
            exchange.sent_ns = monotonic_ns()
        self._watch.receiver.read_from(connection.fd, exchange.sent_ns)
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
            self._watch.change(connection, writing=False)
            return
        self._watch.change(connection, writing=not done)

    # receiving

    def _read(self, connection: Connection, received: Received, data: bytes) -> None:
        exchange = connection.exchange
        try:
            if received.error:
                raise OSError(received.error, "broken")
            data, end = connection.plaintext(data)
        except (OSError, TransportError) as error:
            self._broken(connection, error)
            return
        if exchange is None:  # an idle connection was closed by the server, or it speaks unasked
            if data or end:
                self._pool.drop(connection)
            return
        if received.kept:
            self._take_kept(connection, exchange)
        if data:
            self._add(connection, exchange, received.stamp_ns, data)
        if end and connection.exchange is exchange:
            self._closed(connection, exchange)

    def _add(self, connection: Connection, exchange: Exchange, stamp_ns: int, data: bytes) -> None:
        response = exchange.response
        try:
            if connection.encrypted and response.between_chunks and response.keep(stamp_ns, data):
                return
            if response.add(stamp_ns, data):
                self._complete(connection, exchange)
            elif response.between_chunks and not connection.encrypted:
                self._watch.receiver.keep_chunks(connection.fd, response.bytes_left)
        except ProtocolError as error:
            self._finish(connection, exchange, Outcome.PROTOCOL_ERROR, str(error))
        except TooManyBytes:
            self._finish(connection, exchange, Outcome.TOO_LARGE, "the answer went over the size limit")

    def _take_kept(self, connection: Connection, exchange: Exchange) -> None:
        """Brings the exchange's response up to date."""
        kept = self._watch.receiver.take(connection.fd)
        if kept:
            exchange.response.add_chunks(kept)

    def _complete(self, connection: Connection, exchange: Exchange) -> None:
        response = exchange.response
        reusable = response.keep_alive and not response.surplus and not exchange.unsent
        connection.exchange = None
        if reusable:
            self._pool.keep(connection)
        else:
            self._pool.drop(connection)
        self._end(exchange, None)

    def _closed(self, connection: Connection, exchange: Exchange) -> None:
        response = exchange.response
        if not response.stamps_ns:
            if self._may_resend(connection, exchange):
                self._retry(connection, exchange)
                return
            detail = "the server closed the connection without an answer"
            self._finish(connection, exchange, Outcome.CLOSED_EARLY, detail)
            return
        response.end_of_stream()
        if response.complete:
            self._finish(connection, exchange, None)
        else:
            headers = response.headers_read is not None
            outcome = Outcome.TRUNCATED if headers else Outcome.CLOSED_EARLY
            self._finish(connection, exchange, outcome, "the connection closed before the answer was whole")

    def _broken(self, connection: Connection, error: Exception) -> None:
        exchange = connection.exchange
        if exchange is None:
            self._pool.drop(connection)
        elif not exchange.response.stamps_ns and self._may_resend(connection, exchange):
            self._retry(connection, exchange)
        elif isinstance(error, TransportError):
            self._finish(connection, exchange, error.outcome, error.detail)
        else:
            self._finish(connection, exchange, Outcome.RESET, "the connection was reset")

    def _may_resend(self, connection: Connection, exchange: Exchange) -> bool:
        return self.resend and connection.reused and not exchange.retried

    def _retry(self, connection: Connection, exchange: Exchange) -> None:
        """A kept connection died before any byte of the answer: once more on a fresh one; the clock goes on."""
        self._pool.drop(connection)
        exchange.retried = True
        exchange.response = Response()
        self._connect(exchange)

    # ending

    def _finish(self, connection: Connection, exchange: Exchange, outcome: Outcome | None, detail: str = "") -> None:
        self._take_kept(connection, exchange)
        connection.exchange = None
        self._pool.drop(connection)
        self._end(exchange, outcome, detail)

    def _end(self, exchange: Exchange, outcome: Outcome | None, detail: str = "") -> None:
        if outcome is not None:
            exchange.fail(outcome, detail)
        exchange.end_ns = exchange.response.stamps_ns[-1] if outcome is None else monotonic_ns()
        if self._pacing:
            self._pacing.next_due_ns(monotonic_ns(), self.in_flight)  # it notes whether a request waited for this place
        self.in_flight -= 1
        self._look_ns = 0
        if outcome is None:
            self._gather_ns = min(_GATHER_NS, (exchange.end_ns - exchange.sent_ns) // _GATHER_PART)
        self._finished.add(exchange)
        if reason := self._patience.reason_to_stop(exchange):
            self.stop(reason)

    def _cancel_all(self, reason: str) -> None:
        for connection in list(self._watch.connections.values()):
            if connection.exchange is not None:
                self._finish(connection, connection.exchange, Outcome.CANCELLED, reason)

    def _check_timers(self, now: int) -> None:
        """Ends what took too long, and sets when to look again."""
        limits, receiver = self._timeouts, self._watch.receiver
        self._limit_ns = now + shortest_ns(limits, len(self._destination.addresses))
        for connection in list(self._watch.connections.values()):
            exchange = connection.exchange
            if exchange is None:
                continue
            limit = next_limit(connection, exchange, receiver.heard_ns(connection.fd), limits)
            if limit.at_ns <= now and connection.open:  # what has come in time may only wait to be read
                received = receiver.read(connection.fd)
                if received:
                    self._serve(connection, received)
                if connection.exchange is not exchange:
                    continue
                limit = next_limit(connection, exchange, receiver.heard_ns(connection.fd), limits)
            if limit.at_ns > now:
                self._limit_ns = min(self._limit_ns, limit.at_ns)
            elif limit.outcome is None:
                self._set_up(connection, connection.move)
            else:
                self._finish(connection, exchange, limit.outcome, limit.detail)
