"""Quality beside the numbers of a run: which evaluation stands for it, and how two of them differ."""

from collections.abc import Sequence

import numpy as np

from observatory.compare.stages import FloatArray, Number, StageResult
from runners.quality.statistics import paired_difference

_KEY = ("accuracy", "mean")


def number(share: float, low: float | None, high: float | None, n: int | None) -> Number:
    """An accuracy in percent."""
    return Number(100 * share, None if low is None else 100 * low, None if high is None else 100 * high, n)


def accuracy_difference(base: StageResult, other: StageResult) -> tuple[float, float] | None:
    """Interval of the difference in percent, over the tasks that both answered; None where those are not known."""
    first, second = base.samples.get(_KEY[0]), other.samples.get(_KEY[0])
    if first is None or second is None or first.size != second.size or base.task_set != other.task_set:
        return None
    both = ~(np.isnan(first) | np.isnan(second))
    if not both.any():
        return None
    lost, won = _flips(first[both], second[both])
    low, high = paired_difference(lost, won, int(both.sum()))
    return 100 * low, 100 * high


def _flips(first: FloatArray, second: FloatArray) -> tuple[int, int]:
    return int(((first == 1) & (second == 0)).sum()), int(((first == 0) & (second == 1)).sum())


def best_covered(candidates: Sequence[dict[str, int]]) -> str:
    """Of the task sets (by fingerprint, with the age rank of each one's newest result) the one that most deployments
    were asked, then the newest; empty without any."""
    counts: dict[str, tuple[int, int]] = {}
    for known in candidates:
        for key, rank in known.items():
            count, newest = counts.get(key, (0, 0))
            counts[key] = (count + 1, max(newest, rank))
    return max(counts, key=lambda key: counts[key], default="")
