"""How often counter and power readings are renewed: each board is watched for a moment before sampling begins."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import median

from runners.power.samples import Row

#: Watching ends with so many renewals of each board's counter (of its power where it has none), or when time is up.
_ENOUGH = 6
_FEWEST_GAPS = 3
_LONGEST_NS = 2_000_000_000
_COLUMNS = ("energy_mj", "power_instant_mw", "power_mw")

Periods = Mapping[str, float]


def update_periods(reads: Sequence[Callable[[], Row]], clock_ns: Callable[[], int]) -> list[Periods]:
    """For each reader the median time (ms) between changes of its columns; a column that changed too seldom to tell,
    as power does while it is constant, is left out. Reads as fast as it can, for two seconds at most.
    """
    watches = [_Watch(read, clock_ns) for read in reads]
    end_ns = clock_ns() + _LONGEST_NS
    while not all(watch.done for watch in watches) and clock_ns() < end_ns:
        for watch in watches:
            watch.look()
    return [watch.periods() for watch in watches]


class _Watch:
    def __init__(self, read: Callable[[], Row], clock_ns: Callable[[], int]) -> None:
        self._read = read
        self._clock_ns = clock_ns
        self._last: dict[str, float] = {}
        self._changes_ns: dict[str, list[int]] = {column: [] for column in _COLUMNS}

    def look(self) -> None:
        row, now_ns = self._read(), self._clock_ns()
        for column in _COLUMNS:
            value = row.get(column)
            if value is None:
                continue
            if column in self._last and value != self._last[column]:
                self._changes_ns[column].append(now_ns)
            self._last[column] = value

    @property
    def done(self) -> bool:
        seen = [column for column in _COLUMNS if column in self._last]
        return bool(seen) and len(self._changes_ns[seen[0]]) >= _ENOUGH

    def periods(self) -> Periods:
        return {
            column: round(median(_gaps(stamps)) / 1e6, 1)
            for column, stamps in self._changes_ns.items()
            if len(stamps) > _FEWEST_GAPS
        }


def _gaps(stamps: Sequence[int]) -> list[int]:
    return [after - before for before, after in pairwise(stamps)]
