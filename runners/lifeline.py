"""Side processes of an instrument end with the process that started them, however that ends."""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with(parent_pid: int) -> None:
    """To be called by the side process: the kernel sends it SIGTERM when its parent ends; it ends here if that happened
    already.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent_pid:
        sys.exit("the parent has ended")
