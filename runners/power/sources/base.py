"""What every power source is."""

from collections.abc import Sequence
from typing import Protocol

from runners.power.devices import Device, Note
from runners.power.samples import Row


class Source(Protocol):
    """One way of reading power or energy, opened in the process that samples.

    Opening never fails: a source that has nothing to read has no devices, and ``notes`` say why and what to do. Notes
    may grow while it is read. ``period_ms`` is how often it wants to be read.
    """

    name: str
    period_ms: float
    notes: list[Note]

    def devices(self) -> Sequence[Device]: ...

    def read(self) -> list[Row]:
        """One row per device that gave something; a lost device gives one last row with its reason."""
        ...

    def close(self) -> None: ...
