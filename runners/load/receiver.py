"""What runs for every token, in C: waits for connections, reads and stamps them, and keeps whole chunks of answers.

Python sees the head of an answer, its end, and whatever is not plain HTTP chunks; in between a stream costs it nothing.
``make install`` compiles receiver.c, which says the rest.
"""

import ctypes
import os
import struct
from array import array
from typing import NamedTuple

from runners.load.compiled import function, other_version

SO_TIMESTAMPNS = 35
_AT_ONCE, _READ_BYTES, _DELAYS = 64, 65_536, 65_536
_NOTHING = -(2**31)
_EVENT = struct.Struct("=iiIIq")


class Received(NamedTuple):
    """What came of a descriptor: ``data`` is None when it was not read, and b"" at the end of the stream; then, or when
    ``error`` is not 0, nothing else will come. ``kept``: chunks that came before it can be taken.
    """

    fd: int
    mask: int
    kept: bool
    stamp_ns: int
    data: bytes | None
    error: int


class KernelClock(ctypes.Structure):
    """Turns the kernel's CLOCK_REALTIME receive stamps into CLOCK_MONOTONIC nanoseconds.

    The offset between the two is measured anew at least every 10 ms, so that a step or slew of the wall clock bends no
    stamp; a stamp that a step made implausible gives way to the time of the read, and is counted as ``replaced``.
    """

    _fields_ = (
        ("offset_ns", ctypes.c_int64),
        ("measured_ns", ctypes.c_int64),
        ("replaced", ctypes.c_int64),
        ("kernel_stamps", ctypes.c_int64),
    )

    def stamp_ns(self, wall_ns: int, read_ns: int, floor_ns: int = 0) -> int:
        """``floor_ns``: what is stamped came after it, such as the request's sending and the read before."""
        return int(_clock_stamp(ctypes.byref(self), wall_ns, read_ns, floor_ns))

    def refresh(self, now_ns: int) -> None:
        _clock_refresh(ctypes.byref(self), now_ns)


class Kept(ctypes.Structure):
    """Whole chunks of ``size`` bytes without their framing; ``bytes_in`` counts the framing too. They stay outside
    Python until they are unpacked.
    """

    _fields_ = (
        ("_records", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("reads", ctypes.c_int64),
        ("bytes_in", ctypes.c_int64),
        ("_capacity", ctypes.c_int64),
    )

    def keep(self, stamp_ns: int, data: bytes) -> bool:
        """Adds a read if it is whole chunks."""
        return bool(_keep(ctypes.byref(self), data, len(data), stamp_ns))

    def unpack(self, before_it: int) -> tuple[bytes, "array[int]", "array[int]"]:
        """(data, stamps_ns, ends), once: after the read stamped ``stamps_ns[i]`` the body had ``ends[i]`` bytes, those
        ``before_it`` included.
        """
        stamps_ns, ends = array("q", bytes(8 * self.reads)), array("q", bytes(8 * self.reads))
        _unpack(ctypes.byref(self), before_it, stamps_ns.buffer_info()[0], ends.buffer_info()[0])
        data = ctypes.string_at(self._records, self.size)
        _release(ctypes.byref(self))
        return data, stamps_ns, ends

    def __del__(self) -> None:
        _release(ctypes.byref(self))


class _State(ctypes.Structure):
    _fields_ = (
        ("clock", KernelClock),
        ("ready", ctypes.c_int64),
        ("asleep_ns", ctypes.c_int64),
        ("delays", ctypes.c_int64),
        ("events", ctypes.c_ubyte * (_EVENT.size * _AT_ONCE)),
        ("delays_ns", ctypes.c_int64 * _DELAYS),
        ("bytes", ctypes.c_ubyte * (_READ_BYTES * _AT_ONCE)),
    )


_state, _number, _clock, _fd = ctypes.POINTER(_State), ctypes.c_int64, ctypes.POINTER(KernelClock), ctypes.c_int
_clock_stamp = function("clock_stamp", _number, _clock, _number, _number, _number)
_clock_refresh = function("clock_refresh", None, _clock, _number)
_size = function("receiver_size", _number)
_new = function("receiver_new", _state, ctypes.c_int)
_free = function("receiver_free", None, _state)
_read_from = function("receiver_read_from", ctypes.c_int, _state, _fd, _number)
_keep_chunks = function("receiver_keep_chunks", None, _state, _fd, _number)
_heard_ns = function("receiver_heard_ns", _number, _state, _fd)
_forget = function("receiver_forget", None, _state, _fd)
_take = function("receiver_take", None, _state, _fd, ctypes.POINTER(Kept))
_keep = function("receiver_keep", ctypes.c_int, ctypes.POINTER(Kept), ctypes.c_char_p, _number, _number)
_unpack = function("receiver_unpack", None, ctypes.POINTER(Kept), _number, ctypes.c_void_p, ctypes.c_void_p)
_release = function("receiver_release", None, ctypes.POINTER(Kept))
_read = function("receiver_read", ctypes.c_int, _state, _fd)
_wait = function("receiver_wait", ctypes.c_int, _state, ctypes.c_int, _number, _number)
if _size() != ctypes.sizeof(_State):
    raise other_version()


class Receiver:
    """Waits on an epoll, whose descriptors are non-blocking and carry SO_TIMESTAMPNS where stamps are wanted."""

    def __init__(self, epoll_fd: int) -> None:
        self._state = _new(epoll_fd)
        if not self._state:
            raise MemoryError
        self._seen = self._state.contents
        self._bytes = memoryview(self._seen.bytes)

    @property
    def clock(self) -> KernelClock:
        clock: KernelClock = self._seen.clock
        return clock

    @property
    def asleep_ns(self) -> int:
        """Time spent waiting, in all."""
        return int(self._seen.asleep_ns)

    @property
    def idle(self) -> bool:
        """Whether nothing had happened when it last looked."""
        return not self._seen.ready

    def delays_ns(self) -> "array[int]":
        """How long after the kernel's stamp each read came; of many the last 65,536."""
        return array("q", memoryview(self._seen.delays_ns).cast("B")[: 8 * min(self._seen.delays, _DELAYS)].tobytes())

    def forget_delays(self) -> None:
        self._seen.delays = 0

    def read_from(self, fd: int, floor_ns: int = 0) -> None:
        """From now on ``fd`` is read when it is ready. Nothing that comes was stamped before ``floor_ns``."""
        if _read_from(self._state, fd, floor_ns):
            raise MemoryError

    def keep_chunks(self, fd: int, bytes_left: int) -> None:
        """A chunk begins next: whole ones are kept, until something else comes or ``bytes_left`` are exceeded; both
        are reported as received.
        """
        _keep_chunks(self._state, fd, bytes_left)

    def take(self, fd: int) -> Kept | None:
        """What was kept since the last time."""
        kept = Kept()
        _take(self._state, fd, ctypes.byref(kept))
        return kept if kept.reads else None

    def heard_ns(self, fd: int) -> int:
        """The stamp of its last bytes, or ``floor_ns`` if that was later."""
        return int(_heard_ns(self._state, fd))

    def forget(self, fd: int) -> None:
        """It is left alone from now on; nothing of it is kept."""
        _forget(self._state, fd)

    def wait(self, timeout_ms: int, until_ns: int, gather_ns: int = 0) -> list[Received]:
        """Waits and reads until there is something to tell, ``until_ns`` has come, or nothing has happened for
        ``timeout_ms``; a signal ends it too.
        """
        count = _wait(self._state, timeout_ms, until_ns, gather_ns)
        if count < 0:
            raise OSError(-count, os.strerror(-count))
        return [self._received(slot) for slot in range(count)]

    def read(self, fd: int) -> Received | None:
        """Reads now; None when that brought nothing to tell."""
        return self._received(0) if _read(self._state, fd) else None

    def _received(self, slot: int) -> Received:
        fd, size, mask, kept, stamp_ns = _EVENT.unpack_from(self._seen.events, slot * _EVENT.size)
        start = slot * _READ_BYTES
        data = None if size == _NOTHING else bytes(self._bytes[start : start + max(size, 0)])
        return Received(fd, mask, bool(kept), stamp_ns, data, max(0, -size) if data is not None else 0)

    def __del__(self) -> None:
        _free(self._state)
