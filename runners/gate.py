"""Where the shards of a run wait for each other: they begin each step at one moment, which someone else names.

A shard says ``{"phase": "wait", "step": n}`` in its progress when it is ready for step n, and reads one line from its
standard input, ``{"begin_ns": ...}``: when to begin on its own CLOCK_MONOTONIC. Steps are counted from 0: reading idle
power, where that is asked for, then each stage, then the end of all.
"""

import json
import os
import select
from collections.abc import Callable
from typing import Protocol

_LOOK_S = 0.1


class Gate(Protocol):
    def wait(self, still: Callable[[int], bool]) -> int | None:
        """When to begin the next step (CLOCK_MONOTONIC nanoseconds), 0 for at once; None when it is not to begin.

        ``still`` is called with the step's number several times a second; False gives up.
        """


class OpenGate:
    """Of a run that is not split: always at once."""

    def wait(self, still: Callable[[int], bool]) -> int | None:
        return 0


class StandardInputGate:
    """Of a shard. A closed standard input means that whoever gathers the shards is gone."""

    def __init__(self) -> None:
        self._step = 0
        self._buffer = b""

    def wait(self, still: Callable[[int], bool]) -> int | None:
        step, self._step = self._step, self._step + 1
        while still(step):
            if b"\n" in self._buffer:
                line, _, self._buffer = self._buffer.partition(b"\n")
                return int(json.loads(line)["begin_ns"])
            if select.select([0], [], [], _LOOK_S)[0]:
                data = os.read(0, 4096)
                if not data:
                    return None
                self._buffer += data
        return None


def message(begin_ns: int) -> bytes:
    return json.dumps({"begin_ns": begin_ns}).encode() + b"\n"
