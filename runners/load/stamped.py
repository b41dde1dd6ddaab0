"""Bytes with the times at which they came."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
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

    def all_stamps_ns(self, sizes: "array[int]") -> "array[int]":
        """The same for several ascending sizes."""
        return array("q", self._stamps_ns[np.searchsorted(self.ends, sizes)].tobytes())

    def reads(self) -> Iterator[tuple[int, bytes]]:
        """(stamp_ns, bytes) of each read that brought any."""
        start = 0
        for end, stamp_ns in zip(self._listed_ends, self._stamps_ns.tolist(), strict=True):
            if end > start:
                yield stamp_ns, self.data[start:end]
                start = end

    def followed_by(self, reads: list[tuple[int, bytes]], at: int) -> "StampedBytes":
        """Without the first ``at`` bytes, and with more behind it."""
        kept, rest = self.ends > at, self.data[at:]
        stamps_ns, pieces = [stamp_ns for stamp_ns, _ in reads], [piece for _, piece in reads]
        ends = len(rest) + np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
        return StampedBytes(
            rest + b"".join(pieces),
            np.concatenate([self.ends[kept] - at, ends]),
            np.concatenate([self._stamps_ns[kept], np.array(stamps_ns, dtype=np.int64)]),
        )

    @cached_property
    def _listed_ends(self) -> list[int]:
        ends: list[int] = self.ends.tolist()
        return ends
