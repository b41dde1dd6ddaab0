"""A precise alarm."""

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)
_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_TIMER_ABSTIME = 1


class _Itimerspec(ctypes.Structure):
    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


class Alarm:
    """A timerfd: epoll's own timeout has millisecond steps, too coarse for a send schedule."""

    def __init__(self) -> None:
        self.fd = int(_libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | os.O_CLOEXEC))
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create failed")
        self._set_ns = 0

    def set(self, at_ns: int) -> None:
        """Wakes epoll at that CLOCK_MONOTONIC time; at once when it has passed."""
        if at_ns == self._set_ns:
            return
        value = _Itimerspec(0, 0, at_ns // 1_000_000_000, max(at_ns % 1_000_000_000, 1))
        _libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, ctypes.byref(value), None)
        self._set_ns = at_ns

    def clear(self) -> None:
        """Takes the expiry off after a wake."""
        try:
            os.read(self.fd, 8)
        except BlockingIOError:
            return
        self._set_ns = 0

    def close(self) -> None:
        os.close(self.fd)
