"""One monotonic clock for everything, the kernel's receive stamps brought onto it, and a precise alarm."""

import ctypes
import os
import struct
from time import CLOCK_REALTIME, clock_gettime_ns, monotonic_ns

SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("qq")
_OFFSET_MAX_AGE_NS = 10_000_000
_PLAUSIBLE_DELAY_NS = 5_000_000_000
_OFFSET_ERROR_NS = 50_000

_libc = ctypes.CDLL(None, use_errno=True)
_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_TIMER_ABSTIME = 1


class KernelClock:
    """Turns the kernel's CLOCK_REALTIME receive stamps into CLOCK_MONOTONIC nanoseconds.

    The offset between the two is measured anew at least every 10 ms, so that a step or slew of the wall clock bends no
    stamp; a stamp that a step made implausible gives way to the time of the read.
    """

    def __init__(self) -> None:
        self.kernel_stamps = False
        self.replaced = 0
        self._offset_ns = 0
        self._measured_ns = 0
        self.measure()

    def measure(self) -> None:
        before = monotonic_ns()
        wall = clock_gettime_ns(CLOCK_REALTIME)
        after = monotonic_ns()
        self._offset_ns = wall - (before + after) // 2
        self._measured_ns = after

    def refresh(self, now_ns: int) -> None:
        if now_ns - self._measured_ns > _OFFSET_MAX_AGE_NS:
            self.measure()

    def stamp_ns(self, timespec: bytes, read_ns: int, floor_ns: int = 0) -> int:
        """``floor_ns``: what is stamped came after it, such as the request's sending and the read before."""
        seconds, nanoseconds = _TIMESPEC.unpack(timespec)
        stamp: int = seconds * 1_000_000_000 + nanoseconds - self._offset_ns
        if floor_ns <= stamp <= read_ns and read_ns - stamp < _PLAUSIBLE_DELAY_NS:
            self.kernel_stamps = True
            return stamp
        if read_ns < stamp < read_ns + _OFFSET_ERROR_NS:  # it cannot be later than its read
            return read_ns
        if floor_ns - _OFFSET_ERROR_NS < stamp < floor_ns:
            return floor_ns
        self.replaced += 1
        self.measure()
        return read_ns


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
