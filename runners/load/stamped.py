"""Bytes with the times at which they came."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class StampedBytes:
    """``data``; after the read stamped ``stamps_ns[i]`` its first ``ends[i]`` bytes were there."""

    def __init__(self, data: bytes, ends: "array[int]", stamps_ns: "array[int]") -> None:
        self.data = data
        self.ends = ends
        self.stamps_ns = stamps_ns

    def stamp_ns(self, size: int) -> int:
        """When the first ``size`` bytes were there."""
        return self.stamps_ns[bisect_left(self.ends, size)]

    def reads(self) -> Iterator[tuple[int, bytes]]:
        """(stamp_ns, bytes) of each read that brought any."""
        start = 0
        for end, stamp_ns in zip(self.ends, self.stamps_ns, strict=True):
            if end > start:
                yield stamp_ns, self.data[start:end]
                start = end

    def followed_by(self, reads: list[tuple[int, bytes]], at: int) -> "StampedBytes":
        """Without the first ``at`` bytes, and with more behind it."""
        first = bisect_right(self.ends, at)
        ends, stamps_ns = array("q", (end - at for end in self.ends[first:])), self.stamps_ns[first:]
        pieces = [self.data[at:]]
        size = len(pieces[0])
        for stamp_ns, piece in reads:
            pieces.append(piece)
            size += len(piece)
            ends.append(size)
            stamps_ns.append(stamp_ns)
        return StampedBytes(b"".join(pieces), ends, stamps_ns)
