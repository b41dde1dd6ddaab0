"""Means over repeats and paired effects with Student's t. Pure; a repeat, not a request, is one observation.

Requests within a run share the machine's mood of that minute, so their spread says too little about the next run. Pairs
within a repeat cancel what drifts from repeat to repeat (Cox 1958, Planning of Experiments, chapter 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import atan, cos, exp, log, pi, sin, sqrt

import numpy as np

CONFIDENCE = 0.95
#: Fewer repeats than this decide nothing: two pairs have one degree of freedom, and t is 12.7.
MIN_REPEATS = 3


@dataclass(frozen=True)
class Estimate:
    """``low`` to ``high`` is the interval; missing below two observations."""

    value: float
    low: float | None
    high: float | None
    n: int


def mean(values: Sequence[float]) -> Estimate | None:
    """Over repeats, with its 95 % interval; None without any. No metric is below zero, and so no bound is."""
    found = _interval(values, CONFIDENCE) if values else None
    return found if found is None or found.low is None else replace(found, low=max(0.0, found.low))


def paired_ratio(base: Sequence[float], other: Sequence[float], comparisons: int = 1) -> Estimate | None:
    """other / base, pair by pair, as a geometric mean. All values must be above zero; None without any."""
    found = _interval([log(b / a) for a, b in zip(base, other, strict=True)], _level(comparisons)) if base else None
    if found is None:
        return None
    low, high = (None if bound is None else exp(bound) for bound in (found.low, found.high))
    return Estimate(exp(found.value), low, high, found.n)


def paired_difference(base: Sequence[float], other: Sequence[float], comparisons: int = 1) -> Estimate | None:
    """other - base, pair by pair; None without any."""
    return _interval([b - a for a, b in zip(base, other, strict=True)], _level(comparisons)) if base else None


def _level(comparisons: int) -> float:
    """So that all intervals together hold with 95 % (Bonferroni)."""
    return 1 - (1 - CONFIDENCE) / max(1, comparisons)


def _interval(values: Sequence[float], confidence: float) -> Estimate:
    middle, n = float(np.mean(values)), len(values)
    if n < 2:
        return Estimate(middle, None, None, n)
    half = t_quantile((1 + confidence) / 2, n - 1) * float(np.std(values, ddof=1)) / sqrt(n)
    return Estimate(middle, middle - half, middle + half, n)


def t_quantile(probability: float, freedom: int) -> float:
    """Student's t with whole degrees of freedom, for probabilities from 0.5 up, by halving."""
    low, high = 0.0, 1.0
    while _t_cdf(high, freedom) < probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _t_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def _t_cdf(t: float, freedom: int) -> float:
    """In closed form for whole degrees of freedom: Abramowitz and Stegun 26.7.3 and 26.7.4."""
    angle = atan(t / sqrt(freedom))
    term = cos(angle) if freedom % 2 else 1.0
    total = term if freedom > 1 else 0.0
    for k in range(3 if freedom % 2 else 2, freedom - 1, 2):
        term *= cos(angle) ** 2 * (k - 1) / k
        total += term
    within = 2 / pi * (angle + sin(angle) * total) if freedom % 2 else sin(angle) * total
    return (1 + within) / 2
