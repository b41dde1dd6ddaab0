"""Which connections, and which time, the event loop waits for."""

import select
from contextlib import suppress

from runners.load.alarm import Alarm
from runners.load.receiver import Receiver
from runners.load.transport import Connection

READABLE = select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLERR | select.EPOLLHUP
WRITABLE = select.EPOLLOUT


class Watch:
    """An epoll over ``connections``, by their file descriptors, and an alarm."""

    def __init__(self) -> None:
        self.connections: dict[int, Connection] = {}
        self._alarm = Alarm()
        self._epoll = select.epoll()
        self._epoll.register(self._alarm.fd, select.EPOLLIN)
        self.receiver = Receiver(self._epoll.fileno())
        self.wake_at = self._alarm.set

    def add(self, connection: Connection) -> None:
        self.connections[connection.fd] = connection
        self._epoll.register(connection.fd, WRITABLE | READABLE)

    def change(self, connection: Connection, *, writing: bool) -> None:
        """Tells epoll what to wait for, only when that changes."""
        if not connection.open or writing != connection.watched_write:
            connection.watched_write = writing
            self._epoll.modify(connection.fd, (WRITABLE | READABLE) if writing else READABLE)

    def remove(self, connection: Connection) -> None:
        if self.connections.pop(connection.fd, None) is not None:
            self.receiver.forget(connection.fd)
            with suppress(OSError):  # an address that failed has closed it already
                self._epoll.unregister(connection.fd)

    def forget(self, fd: int) -> None:
        """Closing it has taken it out of epoll."""
        self.connections.pop(fd, None)
        self.receiver.forget(fd)

    def ring(self, fd: int) -> None:
        """An event of no connection: the alarm, or one that is gone."""
        if fd == self._alarm.fd:
            self._alarm.clear()

    def close(self) -> None:
        self._alarm.close()
        self._epoll.close()
