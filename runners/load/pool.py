"""An engine's connections: opened and set up, kept for the next request, dropped."""

from collections.abc import Callable
from time import monotonic_ns

from runners.load.exchange import Exchange
from runners.load.transport import Connection, Destination, Progress, TransportError
from runners.load.watch import Watch


class Pool:
    """``opened`` are those that stand and whose request has yet to be sent."""

    def __init__(self, destination: Destination, watch: Watch) -> None:
        self.opened: list[Connection] = []
        self._destination = destination
        self._watch = watch
        self._idle: list[Connection] = []

    def reuse(self) -> Connection | None:
        """One that was kept."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        connection.reused = True
        return connection

    def open(self, exchange: Exchange) -> None:
        """Begins a new one. Raises TransportError."""
        connection = Connection(self._destination)
        connection.exchange = exchange
        self._watch.add(connection)

    def set_up(self, connection: Connection, step: Callable[[], Progress]) -> None:
        """Goes on with connecting by one ``step`` of the connection. Raises TransportError; then it is dropped."""
        fd, exchange = connection.fd, connection.exchange
        try:
            progress = step()
        except TransportError:
            self._watch.forget(fd)
            self.drop(connection)
            raise
        if progress is Progress.MOVED:  # another descriptor; closing the old one took it out of epoll
            self._watch.forget(fd)
            self._watch.add(connection)
        elif progress is Progress.READY and exchange is not None:
            exchange.connect_ns = (exchange.connect_ns or 0) + monotonic_ns() - connection.started_ns
            self._watch.change(connection, writing=False)
            self.opened.append(connection)
        else:
            self._watch.change(connection, writing=connection.want_write)

    def keep(self, connection: Connection) -> None:
        """For the next request."""
        self._idle.append(connection)

    def drop(self, connection: Connection) -> None:
        self._watch.remove(connection)
        for waiting in (self._idle, self.opened):
            if connection in waiting:
                waiting.remove(connection)
        connection.close()
