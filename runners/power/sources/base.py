"""What every power source is."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from runners.power.devices import Device, Note
from runners.power.samples import Row


class Source(Protocol):
    """One way of reading power or energy, opened in the process that samples.

    Opening never fails for what an instrument does or lacks: a source that has nothing to read has no devices, and
    ``notes`` say why and what to do. It raises SourceError for what cannot be asked. Notes may grow while it is read.
    ``period_ms`` is how often it wants to be read. ``read`` must not wait: what takes its time is read by a thread
    (``runners.power.polling``).
    """

    name: str
    period_ms: float

    @property
    def notes(self) -> list[Note]: ...

    def devices(self) -> Sequence[Device]: ...

    def read(self) -> list[Row]:
        """One row per device that gave something; a lost device gives one last row with its reason."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Archive(Source, Protocol):
    """A source that is asked when the time to be known has passed; ``read`` gives nothing."""

    def between(self, start_ns: int, end_ns: int) -> list[Row]:
        """Rows of a span (CLOCK_MONOTONIC), in order; ``devices`` are then those of it. Raises SourceError when there
        are none.
        """
        ...
