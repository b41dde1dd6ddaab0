"""Exact percentiles and intervals of means."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from runners.metrics import PERCENTILE_MIN_N, Mark

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_RESAMPLES = 1_000
_BOOTSTRAP_MAX_N = 2_000
_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}


@dataclass(frozen=True)
class Clusters:
    """Sum and number of the values of each request; 0 of one that has none."""

    sums: Floats
    counts: Floats

    @classmethod
    def of(cls, values: Floats, numbers: Ints) -> Self:
        """``numbers``: the request that each value came from."""
        _, numbers = np.unique(numbers, return_inverse=True)
        sums = np.asarray(np.bincount(numbers, weights=values), dtype=np.float64)
        return cls(sums, np.bincount(numbers).astype(np.float64))

    def copy(self) -> "Clusters":
        return Clusters(self.sums.copy(), self.counts.copy())

    def add(self, rows: slice, at: Ints, values: Floats) -> None:
        """``values`` of these requests, ``at`` the position of each one's request among them."""
        size = rows.stop - rows.start
        self.sums[rows] += np.bincount(at, weights=values, minlength=size)
        self.counts[rows] += np.bincount(at, minlength=size)


def distribution(
    values: Floats, *, clusters: Clusters | None = None, mark: Mark = Mark.MEASURED
) -> dict[str, Any] | None:
    """{mean, low, high, p50, p90, p95, p99, min, max, n, mark}; None without values.

    Percentiles: linear interpolation between order statistics; null where the sample is too small. ``low`` and ``high``
    bound the mean with 95 % confidence. ``clusters`` adds up the values by request, so that the gaps of one request are
    not taken for independent.
    """
    if not len(values):
        return None
    low, high = mean_interval(values, clusters)
    result: dict[str, Any] = {"mean": float(values.mean()), "low": low, "high": high}
    found = np.percentile(values, list(_PERCENTILES.values()))
    for name, value in zip(_PERCENTILES, found, strict=True):
        result[name] = float(value) if len(values) >= PERCENTILE_MIN_N[name] else None
    return result | {"min": float(values.min()), "max": float(values.max()), "n": len(values), "mark": str(mark)}


def mean_interval(values: Floats, clusters: Clusters | None = None) -> tuple[float | None, float | None]:
    """95 % interval of the mean: percentile bootstrap over requests, from a fixed seed; beyond 2,000 requests the
    normal approximation, which then agrees with it. (None, None) below two requests.
    """
    if clusters is None:
        sums, counts = values, np.ones(len(values))
    else:
        has = clusters.counts > 0
        sums, counts = clusters.sums[has], clusters.counts[has]
    n = len(sums)
    if n < 2:
        return None, None
    if n > _BOOTSTRAP_MAX_N:
        mean = sums.sum() / counts.sum()
        spread = 1.96 * float(np.sqrt(np.sum((sums - mean * counts) ** 2))) / counts.sum()
        return float(mean - spread), float(mean + spread)
    picks = np.random.default_rng(0).integers(0, n, (_RESAMPLES, n))
    means = sums[picks].sum(axis=1) / counts[picks].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def rate(
    value: float | None,
    n: int | None = None,
    *,
    low: float | None = None,
    high: float | None = None,
    mark: Mark = Mark.MEASURED,
) -> dict[str, Any] | None:
    """A single number in the same form; None stays None."""
    if value is None:
        return None
    return {
        "mean": float(value),
        "low": low,
        "high": high,
        "p50": None,
        "p90": None,
        "p95": None,
        "p99": None,
        "min": None,
        "max": None,
        "n": n,
        "mark": str(mark),
    }


def share_low(met: int, n: int, confidence: float = 0.95) -> float:
    """Lower bound of a share of which ``met`` of ``n`` were seen (Clopper and Pearson 1934, one-sided): with a smaller
    true share so many or more would be seen with a probability of at most 1 - ``confidence``.
    """
    if not met:
        return 0.0
    logs = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, n + 1)))))
    k = np.arange(met, n + 1)
    ways = logs[n] - logs[k] - logs[n - k]
    low, high = 0.0, met / n
    for _ in range(50):
        share = (low + high) / 2
        seen = float(np.exp(ways + k * np.log(share) + (n - k) * np.log1p(-share)).sum())
        low, high = (share, high) if seen <= 1 - confidence else (low, share)
    return low


class Usual(NamedTuple):
    """What so large a share of the values reaches or exceeds."""

    share: str
    ms: float


def usual(error_ms: dict[str, Any] | None) -> Usual | None:
    """The highest of p95 and p50 that the sample supports: one hiccup among a few values says nothing; None below."""
    if error_ms is None:
        return None
    for name, share in (("p95", "5 %"), ("p50", "half")):
        if error_ms[name] is not None:
            return Usual(share, float(error_ms[name]))
    return None
