"""What is known of a device that is sampled: which layer it serves, how it is read and how far it can be trusted."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Self

from runners.metrics import Mark


class Layer(StrEnum):
    """HOST is the whole machine as its power supplies or a meter at the wall see it: it holds all the others."""

    ACCELERATOR = "accelerator"
    CPU = "cpu"
    DRAM = "dram"
    HOST = "host"


class Note(NamedTuple):
    """Something that people must know about the power figures; the text says what to do."""

    code: str
    text: str


class SourceError(ValueError):
    """A power source cannot be used as asked; the message says what to change."""


@dataclass(frozen=True)
class Device:
    """``update_ms``: how often the instrument (as it is sampled here) gives a new value. ``power_column``: the column
    of samples that holds a power reading independent of the counter, each value the mean of the ``power_window_ms``
    before it; None when there is no such reading. ``gain_low`` and ``gain_high``: factors on a reading between which
    the truth is taken to lie. ``shared``: the board may also serve others (MIG, vGPU). Wrapping counters start again
    from 0 after ``wraps_at_mj``; any other decrease is a reset. ``facts``: what else the source found out at its start
    (docs/power.md). ``host``: the machine that sampled it for a run driven elsewhere, whose clock is known to
    ``clock_bound_ms``; empty for the machine of the run itself. ``pool``: the part of the server that it is in; empty
    where all accelerators do the same.
    """

    id: str
    name: str
    layer: Layer
    source: str
    mark: Mark
    update_ms: float
    reading: str
    gain_low: float
    gain_high: float
    gain_source: str
    counter: bool = True
    wraps: bool = False
    wraps_at_mj: float | None = None
    power_column: str | None = None
    power_window_ms: float = 0.0
    shared: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    host: str = ""
    clock_bound_ms: float = 0.0
    pool: str = ""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(**{**data, "layer": Layer(data["layer"]), "mark": Mark(data["mark"])})


_STRENGTH = (Mark.MEASURED, Mark.MODELLED, Mark.ASSUMED)


def weakest(marks: Iterable[Mark]) -> Mark | None:
    """The mark that a sum of such numbers deserves; None for no numbers."""
    return max(marks, key=_STRENGTH.index, default=None)
