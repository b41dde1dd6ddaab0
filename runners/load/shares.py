"""The part of a stage that one of several load processes carries.

Requests are dealt out like cards: of n shards the first sends requests 0, n, 2n ..., the second 1, n + 1, ... of one
numbering and one schedule. So prompts are disjoint, every planned request is sent once, and what the shards hold in
flight adds up to what was asked.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from runners.spec import Arrivals, RunSpec


@dataclass(frozen=True)
class Share:
    """Shard ``position`` of ``count``; a whole stage is 0 of 1. Beyond the count there is nothing to do."""

    position: int = 0
    count: int = 1

    @classmethod
    def of(cls, spec: RunSpec, level: float) -> "Share":
        """A concurrency below the number of shards is shared among as many as it has places for."""
        shard = spec.shard
        if shard.index is None:
            return cls()
        places = min(shard.count, int(level)) if spec.load.arrivals is Arrivals.CLOSED else shard.count
        return cls(shard.index, places)

    @property
    def idle(self) -> bool:
        return self.position >= self.count

    def part(self, whole: int) -> int:
        """Of so many things; the parts of all shards add up to them."""
        return 0 if self.idle else len(range(self.position, whole, self.count))

    def level(self, closed: bool, level: float) -> float:
        """What this shard holds in flight, or sends per second, at a level of the whole."""
        if closed:
            return float(self.part(int(level)))
        return 0.0 if self.idle else level / self.count

    def number(self, nth: int) -> int:
        """The number in the whole stage of the ``nth`` request of this shard, from 0."""
        return self.position + nth * self.count

    def dealt(self, schedule: NDArray[np.int64]) -> NDArray[np.int64]:
        """Its own times of a schedule."""
        return schedule[:0] if self.idle else schedule[self.position :: self.count]
