"""Between an engine and whoever started it: when that one ends, however it ends, the engine ends with all its children.

``python -m runners.engines.guard [--cores 0,1] -- COMMAND ...``: the other end of its standard input is the starter's.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: How long an engine may take to end by itself once it was told to.
GRACE_S = 5.0
_LOOK_S = 0.1


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _start(command: Sequence[str], cores: set[int]) -> "subprocess.Popen[bytes]":
    def prepare() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if cores:
            os.sched_setaffinity(0, cores)

    return subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=prepare)


def _children() -> list[int]:
    """Direct children; with a subreaper, in the end every descendant."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.append(int(path.parent.name))
    return found


def _end_all(engine: "subprocess.Popen[bytes]") -> None:
    """Asks the engine to end; after GRACE_S kills what is left, and what its children left behind."""
    if engine.poll() is None:
        engine.terminate()
        with suppress(subprocess.TimeoutExpired):
            engine.wait(GRACE_S)
    with suppress(ProcessLookupError):
        os.killpg(engine.pid, signal.SIGKILL)
    deadline = time.monotonic() + GRACE_S
    while (left := _children()) and time.monotonic() < deadline:
        for pid in left:
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def main(arguments: Sequence[str]) -> int:
    """The engine's own status where it ended by itself, else 0."""
    split = arguments.index("--")
    cores = {int(core) for core in arguments[1].split(",")} if arguments[0] == "--cores" else set()
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        engine = _start(arguments[split + 1 :], cores)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"cannot start {arguments[split + 1]}: {error}", file=sys.stderr)
        return 127
    try:
        while engine.poll() is None and not stopped and not select.select([0], [], [], _LOOK_S)[0]:
            pass
        return engine.poll() or 0
    finally:
        _end_all(engine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
