"""Bytes with the times at which they came."""

from bisect import bisect_left
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class StampedBytes:
    """``data``; after the read stamped ``stamps_ns[i]`` its first ``ends[i]`` bytes were there."""

    def __init__(self, data: bytes, ends: Ints, stamps_ns: Ints) -> None:
        self.data = data
        self.ends = ends
        self._stamps_ns = stamps_ns

    def stamp_ns(self, size: int) -> int:
        """When the first ``size`` bytes were there."""
        return int(self._stamps_ns[bisect_left(self._listed_ends, size)])

    def all_stamps_ns(self, sizes: list[int]) -> list[int]:
        """The same for several ascending sizes."""
        stamps: list[int] = self._stamps_ns[np.searchsorted(self.ends, sizes)].tolist()
        return stamps

    def with_data(self, data: bytes, ends: Ints) -> "StampedBytes":
        """Other bytes that came in the same reads."""
        return StampedBytes(data, ends, self._stamps_ns)

    @cached_property
    def _listed_ends(self) -> list[int]:
        ends: list[int] = self.ends.tolist()
        return ends
