"""Memory in small pages while requests are timed."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

_SET_DISABLED, _GET_DISABLED = 41, 42  # PR_SET_THP_DISABLE, PR_GET_THP_DISABLE

_prctl = ctypes.CDLL(None).prctl
_prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]


@contextmanager
def small_pages() -> Iterator[None]:
    """While it lasts the kernel gives this process no huge pages (Arrow's allocator asks for them): each is cleared at
    its first use, which stops a process for 5 to 10 ms in a virtual machine whose host has yet to find the memory.
    """
    before = _prctl(_GET_DISABLED, 0, 0, 0, 0)
    _prctl(_SET_DISABLED, 1, 0, 0, 0)
    try:
        yield
    finally:
        _prctl(_SET_DISABLED, max(before, 0), 0, 0, 0)
