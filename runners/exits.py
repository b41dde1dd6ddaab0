"""How the command line ends."""

from enum import IntEnum


class Exit(IntEnum):
    VALID = 0
    USAGE = 2
    UNUSABLE = 3
    INVALID = 4
    INTERRUPTED = 130
