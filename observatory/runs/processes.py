"""Child processes that cannot outlive the one that started them."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def spawn(
    argv: Sequence[str],
    *,
    env: dict[str, str],
    cwd: str,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO[Any],
    stderr: int | IO[Any],
    death_signal: signal.Signals,
) -> subprocess.Popen[bytes]:
    """Starts ``argv`` in a session of its own. Call it from the main thread: on Linux the child gets
    ``death_signal`` when the calling thread ends, kill -9 included.
    """
    parent = os.getpid()

    def follow_parent() -> None:
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
            if os.getppid() != parent:  # it died before the line above
                os._exit(1)

    return subprocess.Popen(
        argv,
        env=env,
        cwd=cwd,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=follow_parent,
    )


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to everything that is left of the child's session, then waits for the child."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
