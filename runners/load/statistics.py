"""Exact percentiles and intervals of means."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from runners.metrics import PERCENTILE_MIN_N, Mark

Floats = NDArray[np.float64]

_RESAMPLES = 1_000
_BOOTSTRAP_MAX_N = 2_000
_PERCENTILES = {"p50": 50.0, "p90": 90.0, "p95": 95.0, "p99": 99.0}


def distribution(
    values: Floats, *, clusters: NDArray[np.int64] | None = None, mark: Mark = Mark.MEASURED
) -> dict[str, Any] | None:
    """{mean, low, high, p50, p90, p95, p99, min, max, n, mark}; None without values.

    Percentiles: linear interpolation between order statistics; null where the sample is too small. ``low`` and ``high``
    bound the mean with 95 % confidence. ``clusters`` numbers the request that each value came from, so that the gaps of
    one request are not taken for independent.
    """
    if not len(values):
        return None
    low, high = mean_interval(values, clusters)
    result: dict[str, Any] = {"mean": float(values.mean()), "low": low, "high": high}
    for name, q in _PERCENTILES.items():
        result[name] = float(np.percentile(values, q)) if len(values) >= PERCENTILE_MIN_N[name] else None
    return result | {"min": float(values.min()), "max": float(values.max()), "n": len(values), "mark": str(mark)}


def mean_interval(values: Floats, clusters: NDArray[np.int64] | None = None) -> tuple[float | None, float | None]:
    """95 % interval of the mean: percentile bootstrap over requests, from a fixed seed; beyond 2,000 requests the
    normal approximation, which then agrees with it. (None, None) below two requests.
    """
    if clusters is None:
        sums, counts = values, np.ones(len(values))
    else:
        _, numbers = np.unique(clusters, return_inverse=True)
        sums = np.bincount(numbers, weights=values).astype(np.float64)
        counts = np.bincount(numbers).astype(np.float64)
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
