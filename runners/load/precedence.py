"""Going before other programs of the host while requests are timed."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")


@contextmanager
def precedence() -> Iterator[str]:
    """While it lasts this thread is scheduled before ordinary ones, where the system permits it (root, or
    CAP_SYS_NICE). Yields how it is scheduled: "realtime" or "usual".

    What is late to be read loses its stamp: the kernel keeps only the last one of packets that wait together.
    """
    before, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except OSError:
        yield "usual"
        return
    try:
        yield "realtime"
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, before, parameters)


def waited_ns() -> int | None:
    """How long this thread was ready to run and had no core, since it began; None where the kernel does not tell."""
    try:
        return int(_SCHEDSTAT.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
