"""How much of a measured energy each request took. Pure: arrays in, arrays out.

The model is E = P_idle T + a prefill tokens (uncached) + b decode tokens + c KV reads, fitted over slices of a run by
least squares with no coefficient below 0. What a request took is then its part of the idle power, by the time that it
was in flight, and its tokens at their coefficients, all scaled by one factor so that the requests together took exactly
what was measured. Terms that the run cannot tell apart (their amounts always in the same ratio) are joined, and the
result says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import fsum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

#: Beyond this the columns of the fit are so alike that their coefficients mean nothing.
MAX_CONDITION = 30.0
SLICES_PER_TERM = 4
_RESAMPLES = 400


def _sum(rows: Sequence[Floats]) -> Floats:
    return np.asarray(np.sum(rows, axis=0), dtype=np.float64)


@dataclass(frozen=True)
class Work:
    """What was done in each slice, or for each request. ``kv_reads``: tokens of context read by decoded ones, in
    millions.
    """

    seconds: Floats
    prefill: Floats
    decode: Floats
    kv_reads: Floats

    def joined(self, names: tuple[str, ...]) -> Floats:
        """The amounts of several terms together."""
        return _sum([getattr(self, name) for name in names])


#: Terms of the model, the finest first: names that stand together share a coefficient.
MODELS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (("prefill",), ("decode",), ("kv_reads",)),
    (("prefill",), ("decode",)),
    (("prefill", "decode"),),
)


@dataclass(frozen=True)
class Term:
    """``joules`` for one of ``names`` (a token; a million tokens read), with its 95 % interval over slices."""

    names: tuple[str, ...]
    joules: float
    low: float
    high: float


@dataclass(frozen=True)
class Fit:
    """``idle_w`` was measured before the run when ``idle_measured``, else fitted as well. ``resamples``: coefficients
    (idle power first) of the fits behind the intervals."""

    idle_w: float
    idle_measured: bool
    terms: tuple[Term, ...]
    r_squared: float | None
    slices: int
    resamples: Floats
    note: str = ""

    def weights(self, work: Work, coefficients: Floats | None = None) -> Floats:
        """Joules by the model for each row of ``work``."""
        found = np.array([self.idle_w, *(term.joules for term in self.terms)]) if coefficients is None else coefficients
        amounts = [work.seconds, *(work.joined(term.names) for term in self.terms)]
        return _sum([value * amount for value, amount in zip(found, amounts, strict=True)])


def fit(energy_j: Floats, work: Work, idle_w: float | None = None) -> Fit | None:
    """The finest model that the slices can tell apart; None when there are too few of them."""
    for model in MODELS:
        fixed = 0 if idle_w is not None else 1
        if len(energy_j) < SLICES_PER_TERM * (len(model) + fixed):
            continue
        columns = [work.joined(names) for names in model]
        if all(column.any() for column in columns) and _told_apart(columns, work.seconds, idle_w is None):
            return _fitted(energy_j, work, columns, model, idle_w)
    return None


def _told_apart(columns: Sequence[Floats], seconds: Floats, with_idle: bool) -> bool:
    """Whether the columns differ enough; one that is fitted beside the idle power must also differ from time."""
    rates = [column / seconds for column in columns]
    if with_idle:
        rates = [*rates, np.ones_like(seconds)]
    scaled = np.stack([rate / np.linalg.norm(rate) for rate in rates], axis=1)
    return bool(np.linalg.cond(scaled) < MAX_CONDITION)


def _fitted(
    energy_j: Floats, work: Work, columns: Sequence[Floats], model: tuple[tuple[str, ...], ...], idle_w: float | None
) -> Fit:
    design = np.stack([work.seconds, *columns], axis=1)
    found = _solve(design, energy_j, idle_w)
    picks = np.random.default_rng(0).integers(0, len(energy_j), (_RESAMPLES, len(energy_j)))
    resamples = np.array([_solve(design[pick], energy_j[pick], idle_w) for pick in picks])
    lows, highs = np.percentile(resamples, [2.5, 97.5], axis=0)
    spread = float(((energy_j - energy_j.mean()) ** 2).sum())
    residual = float(((energy_j - design @ found) ** 2).sum())
    terms = tuple(
        Term(names, float(found[i]), float(lows[i]), float(highs[i])) for i, names in enumerate(model, start=1)
    )
    joined = [" and ".join(names) for names in model if len(names) > 1]
    return Fit(
        idle_w=float(found[0]),
        idle_measured=idle_w is not None,
        terms=terms,
        r_squared=1 - residual / spread if spread > 0 else None,
        slices=len(energy_j),
        resamples=resamples,
        note=f"This run cannot tell {joined[0]} tokens apart: they share a coefficient." if joined else "",
    )


def _solve(design: Floats, energy_j: Floats, idle_w: float | None) -> Floats:
    """Coefficients, none below 0; the first is ``idle_w`` where it is known."""
    if idle_w is None:
        return not_negative(design, energy_j)
    rest = not_negative(design[:, 1:], energy_j - idle_w * design[:, 0])
    return np.concatenate(([idle_w], rest))


def not_negative(design: Floats, target: Floats) -> Floats:
    """Least squares with no coefficient below 0, exact for a few columns: the best of all sets that may be positive."""
    width = design.shape[1]
    best, least = np.zeros(width), float(target @ target)
    for size in range(1, width + 1):
        for chosen in combinations(range(width), size):
            some, *_ = np.linalg.lstsq(design[:, chosen], target, rcond=None)
            error = float(((target - design[:, chosen] @ some) ** 2).sum())
            if (some >= 0).all() and error < least:
                best, least = np.zeros(width), error
                best[list(chosen)] = some
    return best


def share(total: float, weights: Floats) -> Floats:
    """``total`` divided by the weights, so that the parts sum to it exactly (as ``math.fsum`` adds).

    The rule for anything that shares one meter: requests, processes by SM time, MIG instances by activity and slice.
    Equal parts when nothing has weight. Raises ValueError for weights below 0.
    """
    if (weights < 0).any():
        raise ValueError("A weight is below 0: shares are of work done, which cannot be negative.")
    if not len(weights):
        return np.zeros(0)
    whole = fsum(weights)
    parts = total * (weights / whole) if whole > 0 else np.full(len(weights), total / len(weights))
    largest = int(np.argmax(parts))
    parts[largest] += total - fsum(parts)
    return np.asarray(parts, dtype=np.float64)


def attribute(found: Fit, energy_j: float, requests: Work) -> Floats:
    """Joules of each request; together exactly ``energy_j``. ``seconds`` are each one's part of the window."""
    return share(energy_j, found.weights(requests))


def attributed_median(found: Fit, energy_j: float, requests: Work, whole: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Median joules over the requests that lie ``whole`` in the window, with its 95 % interval over the fits."""
    medians = [
        float(np.median(share(energy_j, found.weights(requests, coefficients))[whole]))
        for coefficients in found.resamples
    ]
    low, high = np.percentile(medians, [2.5, 97.5])
    value = float(np.median(attribute(found, energy_j, requests)[whole]))
    return {"value": value, "low": min(float(low), value), "high": max(float(high), value)}
