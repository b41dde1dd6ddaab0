"""Intervals and tests of shares. Pure; 95 % and two-sided."""

from math import comb, hypot, sqrt
from statistics import NormalDist
from typing import Any

_Z = NormalDist().inv_cdf(0.975)


def wilson(successes: int, n: int) -> tuple[float, float]:
    """Score interval of a share, between 0 and 1 (E. B. Wilson, JASA 22, 1927, p. 209-212):
    (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). Raises ValueError without observations.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"{successes} of {n} is not a share")
    p, z2 = successes / n, _Z * _Z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return (0.0 if successes == 0 else middle - half), (1.0 if successes == n else middle + half)


def share(successes: int, n: int) -> dict[str, Any]:
    """{count, n, share, low, high}; the last three null without observations."""
    if n == 0:
        return {"count": 0, "n": 0, "share": None, "low": None, "high": None}
    low, high = wilson(successes, n)
    return {"count": successes, "n": n, "share": successes / n, "low": low, "high": high}


def mcnemar_exact(lost: int, won: int) -> float:
    """P value of McNemar's test in its exact form: of the pairs that differ, half are expected each way, so that
    p = min(1, 2 sum_{i <= min} C(n, i) / 2^n) with n = lost + won (Q. McNemar, Psychometrika 12, 1947; the binomial
    form is that of Agresti, Categorical Data Analysis, 10.1.4). 1 without such pairs.
    """
    n = lost + won
    tail = sum(comb(n, i) for i in range(min(lost, won) + 1))
    return min(1.0, tail / 2 ** (n - 1)) if n else 1.0


def paired_difference(lost: int, won: int, n: int, comparisons: int = 1) -> tuple[float, float]:
    """Interval of the difference of two shares of the same n items, of which ``won`` are right only in the second and
    ``lost`` only in the first. Wald's with one observation added to each (Bonett and Price, Journal of Educational and
    Behavioral Statistics 37, 2012): d = p12 - p21, p = (f + 1)/(n + 2), d +- z sqrt((p12 + p21 - d^2)/(n + 2)). With
    several ``comparisons`` all their intervals together hold with 95 % (Bonferroni).
    """
    if n < 1 or lost + won > n:
        raise ValueError(f"{lost} and {won} of {n} cannot be")
    up, down = (won + 1) / (n + 2), (lost + 1) / (n + 2)
    middle = up - down
    z = NormalDist().inv_cdf(1 - 0.025 / comparisons)
    half = z * sqrt((up + down - middle * middle) / (n + 2))
    return max(-1.0, middle - half), min(1.0, middle + half)


def unpaired_difference(base: tuple[float, float, float], other: tuple[float, float, float]) -> tuple[float, float]:
    """Interval of other - base from (value, low, high) of each, where the pairs are not known (R. G. Newcombe,
    Statistics in Medicine 17, 1998, p. 873-890, method 10):
    d - sqrt((p2 - l2)^2 + (u1 - p1)^2), d + sqrt((u2 - p2)^2 + (p1 - l1)^2). Of the same questions it is wider than a
    paired one.
    """
    (p1, low1, high1), (p2, low2, high2) = base, other
    difference = p2 - p1
    return difference - hypot(p2 - low2, high1 - p1), difference + hypot(high2 - p2, p1 - low1)
