"""Intervals of a difference between two independent samples. 95 %, two-sided, fixed seed: same input, same answer."""

import numpy as np

from observatory.compare.stages import FloatArray, Number

RESAMPLES = 4000
CONFIDENCE = 0.95
_SEED = 20_260_101
_TAILS = (100 * (1 - CONFIDENCE) / 2, 100 * (1 + CONFIDENCE) / 2)


def resampled_percentiles(
    sample: FloatArray, percent: float, generator: np.random.Generator, resamples: int = RESAMPLES
) -> FloatArray:
    """Bootstrap replicates of a percentile (linear interpolation), in the sample's unit.

    Drawing n values with replacement from a sorted sample and taking the k-th smallest is the same as looking up the
    k-th smallest of n uniform numbers, which is Beta(k, n + 1 - k) distributed (David and Nagaraja, Order Statistics,
    2.1). So each replicate costs two draws, however large the sample. Raises ValueError on an empty sample.
    """
    if sample.size == 0:
        raise ValueError("an empty sample has no percentile")
    ordered, n = np.sort(sample), sample.size
    position = percent / 100 * (n - 1)
    below, weight = int(position), position - int(position)
    lower = generator.beta(below + 1, n - below, size=resamples)
    values: FloatArray = ordered[np.minimum((lower * n).astype(int), n - 1)]
    if weight == 0:
        return values
    upper = lower + (1 - lower) * generator.beta(1, n - below - 1, size=resamples)
    values = (1 - weight) * values + weight * ordered[np.minimum((upper * n).astype(int), n - 1)]
    return values


def percentile_difference(base: FloatArray, other: FloatArray, percent: float) -> tuple[float, float]:
    """Interval of other's percentile minus base's, each resampled by itself."""
    generator = np.random.default_rng(_SEED)
    base_replicates = resampled_percentiles(base, percent, generator)
    difference = resampled_percentiles(other, percent, generator) - base_replicates
    low, high = np.percentile(difference, _TAILS)
    return float(low), float(high)


def percentile_interval(sample: FloatArray, percent: float) -> tuple[float, float]:
    """Interval of one percentile."""
    low, high = np.percentile(resampled_percentiles(sample, percent, np.random.default_rng(_SEED)), _TAILS)
    return float(low), float(high)


def number_difference(base: Number, other: Number) -> tuple[float, float] | None:
    """Interval of other minus base from the intervals of both; None when one has none.

    Squares of the distances to the bounds add up (MOVER: Zou and Donner, Statistics in Medicine 27, 2008).
    """
    if base.low is None or base.high is None or other.low is None or other.high is None:
        return None
    delta = other.value - base.value
    down = np.hypot(other.value - other.low, base.high - base.value)
    up = np.hypot(other.high - other.value, base.value - base.low)
    return float(delta - down), float(delta + up)
