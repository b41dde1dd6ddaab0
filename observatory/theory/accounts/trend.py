"""How fast the price of a fixed capability falls: a straight line through the logarithms of dated prices.

ln p = a + b t by least squares, t in years of 365.25 days; prices fall exp(-b) times per year. The interval is that of
the slope with Student's t at n - 2 degrees of freedom: it knows only the scatter around a straight line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from math import exp, lgamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from runners.prices import Impossible

DAYS_PER_YEAR = 365.25


@dataclass(frozen=True)
class Trend:
    """``times_per_year``: how many times cheaper after a year; below 1 it became dearer. Bounds (95 %) are None for
    fewer than three prices.
    """

    times_per_year: float
    low: float | None
    high: float | None
    halving_months: float | None
    r_squared: float | None
    n: int
    start_usd: float


def fit(points: Sequence[tuple[date, float]], *, serial: bool = False) -> Trend:
    """The trend of (day, price). ``serial``: prices come in order and each is much like the one before, so the interval
    is widened by sqrt((1 + r) / (1 - r)), r the correlation of neighbouring residuals (autoregression of first order).

    Raises Impossible for fewer than two days or prices that are not above 0.
    """
    if any(price <= 0 for _, price in points):
        raise Impossible("A price is 0 or less, and the fit is of logarithms.", "Give prices above 0.")
    if len({day for day, _ in points}) < 2:
        raise Impossible("One day makes no trend.", "Give prices of at least two different days.")
    first = min(day for day, _ in points)
    years = np.array([(day - first).days / DAYS_PER_YEAR for day, _ in points])
    logs = np.array([log(price) for _, price in points])
    spread = float(((years - years.mean()) ** 2).sum())
    slope = float(((years - years.mean()) * (logs - logs.mean())).sum()) / spread
    intercept = float(logs.mean() - slope * years.mean())
    residuals = logs - intercept - slope * years
    residual = float((residuals**2).sum())
    n, total = len(points), float(((logs - logs.mean()) ** 2).sum())
    wider = _widening(residuals) if serial else 1.0
    margin = wider * student_t(n - 2) * sqrt(residual / (n - 2) / spread) if n > 2 else None
    return Trend(
        times_per_year=exp(-slope),
        low=None if margin is None else exp(-slope - margin),
        high=None if margin is None else exp(-slope + margin),
        halving_months=12 * log(2) / -slope if slope < 0 else None,
        r_squared=1 - residual / total if n > 2 and total > 0 else None,
        n=n,
        start_usd=exp(intercept),
    )


def _widening(residuals: NDArray[np.float64]) -> float:
    """At most that of a correlation of 0.9."""
    squares = float((residuals**2).sum())
    together = float((residuals[1:] * residuals[:-1]).sum())
    r = min(0.9, max(0.0, together / squares)) if squares > 0 else 0.0
    return sqrt((1 + r) / (1 - r))


def spend_change(times_cheaper: float, times_more_tokens: float) -> float:
    """What becomes of the bill when prices fall so many times while so many times more tokens are bought."""
    return times_more_tokens / times_cheaper


def student_t(freedom: int, confidence: float = 0.95) -> float:
    """The two-sided quantile of Student's t, by bisection over the integral of its density (error below 1e-6)."""
    scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
    low, high = 0.0, 1e4
    for _ in range(80):
        middle = (low + high) / 2
        angle = np.linspace(0.0, np.arctan(middle / sqrt(freedom)), 4001)  # t = sqrt(v) tan(angle): no long tail
        density = scale * sqrt(freedom) * np.cos(angle) ** (freedom - 1)
        inside = 2 * float(np.trapezoid(density, angle))
        low, high = (middle, high) if inside < confidence else (low, middle)
    return (low + high) / 2
