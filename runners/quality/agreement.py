"""How far two endpoints answer alike: texts, tokens, log probabilities, and answers that went from right to wrong."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import Any

import numpy as np

from runners.load.dialects.base import Token
from runners.load.statistics import Clusters, mean_interval
from runners.quality.answers import Answer
from runners.quality.statistics import mcnemar_exact, paired_difference, share

#: What is left of a probability that servers round: below this two rests are alike.
_LEAST_REST = 1e-6


@dataclass(frozen=True)
class Pair:
    """Two answers to one task."""

    reference: Answer
    other: Answer

    @property
    def identical(self) -> bool:
        return self.reference.text == self.other.text

    @property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return self.reference.tokens, self.other.tokens


def agreement(reference: Sequence[Answer], other: Sequence[Answer]) -> dict[str, Any]:
    """{paired, unpaired, identical, first_difference, logprobs, flips, changed}: docs/quality.md explains each.

    Only tasks that both answered are paired.
    """
    others = {answer.id: answer for answer in other}
    pairs = [
        Pair(answer, others[answer.id])
        for answer in reference
        if answer.answered and answer.id in others and others[answer.id].answered
    ]
    return {
        "paired": len(pairs),
        "unpaired": len({answer.id for answer in (*reference, *other)}) - len(pairs),
        "identical": share(sum(pair.identical for pair in pairs), len(pairs)),
        "first_difference": first_difference(pairs),
        "logprobs": logprob_difference(pairs),
        "flips": flips(pairs),
        "changed": [pair.reference.id for pair in pairs if not pair.identical],
    }


def flips(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Right to wrong and wrong to right, with McNemar's exact test and the difference of the accuracies (other less
    reference) with its paired interval; those null without pairs."""
    lost = sum(bool(pair.reference.correct) and not pair.other.correct for pair in pairs)
    won = sum(bool(pair.other.correct) and not pair.reference.correct for pair in pairs)
    found: dict[str, Any] = {"right_to_wrong": lost, "wrong_to_right": won, "n": len(pairs)}
    if not pairs:
        return found | {"p_value": None, "difference": None, "low": None, "high": None}
    low, high = paired_difference(lost, won, len(pairs))
    difference = (won - lost) / len(pairs)
    bounds = {"low": min(low, difference), "high": max(high, difference)}
    return found | {"p_value": mcnemar_exact(lost, won), "difference": difference} | bounds


# where answers part


def first_difference(pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """{unit, n, min, p50, alike_share} over the answers that differ: places are counted from 0; ``alike_share`` is the
    mean part of an answer before its first difference, over all pairs. The unit is tokens where all answers have them,
    else words. None without pairs.
    """
    if not pairs:
        return None
    by_tokens = all(pair.reference.tokens and pair.other.tokens for pair in pairs)
    found = [_places(pair, by_tokens) for pair in pairs]
    parted = [place for place, _ in found if place is not None]
    alike = [1.0 if place is None else place / longest for place, longest in found]
    return {
        "unit": "tokens" if by_tokens else "words",
        "n": len(parted),
        "min": min(parted, default=None),
        "p50": float(median(parted)) if parted else None,
        "alike_share": sum(alike) / len(alike),
    }


def _places(pair: Pair, by_tokens: bool) -> tuple[int | None, int]:
    """(place of the first difference or None, length of the longer answer)."""
    if pair.identical:
        return None, 0
    left, right = ([token.text for token in tokens] for tokens in pair.tokens)
    if not by_tokens:
        left, right = (pair.reference.text or "").split(), (pair.other.text or "").split()
    return _alike(left, right), max(len(left), len(right), 1)


def _alike(left: Sequence[str], right: Sequence[str]) -> int:
    """Length of the common beginning."""
    return next(
        (i for i, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
        min(len(left), len(right)),
    )


# log probabilities


def logprob_difference(pairs: Sequence[Pair]) -> dict[str, Any] | None:
    """Over all places where both had the same text before them, the first difference included.

    ``top1``: mean |difference| of the log probability of the reference's likeliest token, where the other lists it.
    ``kl``: mean Kullback-Leibler divergence of the other from the reference, in nats, over the tokens that both list,
    and one class for all others. Merging outcomes can only lower a divergence (data processing inequality: Cover and
    Thomas, Elements of Information Theory, 2.8), so it is a lower bound of the whole one. Intervals: 95 %, bootstrap
    over answers. None where log probabilities are missing.
    """
    top1: list[float] = []
    kl: list[float] = []
    top1_of: list[int] = []
    kl_of: list[int] = []
    for number, pair in enumerate(pairs):
        for left, right in _same_context(*pair.tokens):
            reference, other = _chances(left), _chances(right)
            kl.append(kl_nats(reference, other))
            kl_of.append(number)
            likeliest = max(reference, key=lambda text: reference[text])
            if other.get(likeliest):
                top1.append(abs(log(reference[likeliest] / other[likeliest])))
                top1_of.append(number)
    if not kl:
        return None
    return {
        "places": len(kl),
        "answers": len(set(kl_of)),
        "top1": _mean(top1, top1_of),
        "kl": _mean(kl, kl_of),
    }


def _same_context(left: Sequence[Token], right: Sequence[Token]) -> list[tuple[Token, Token]]:
    alike = _alike([token.text for token in left], [token.text for token in right])
    return [pair for pair in zip(left[: alike + 1], right[: alike + 1], strict=False) if pair[0].top and pair[1].top]


def _chances(token: Token) -> dict[str, float]:
    """Probability by text; two tokens may show as the same text."""
    found: dict[str, float] = {}
    for text, logprob in token.top:
        found[text] = found.get(text, 0.0) + exp(min(logprob, 0.0))
    return found


def kl_nats(reference: dict[str, float], other: dict[str, float]) -> float:
    """sum p ln(p/q) over the common outcomes and the rest of both. Never negative."""
    common = [text for text in reference if reference[text] > 0 and other.get(text, 0.0) > 0]
    rest_p = max(1 - sum(reference[text] for text in common), _LEAST_REST)
    rest_q = max(1 - sum(other[text] for text in common), _LEAST_REST)
    terms = [reference[text] * log(reference[text] / other[text]) for text in common]
    return max(0.0, sum(terms) + rest_p * log(rest_p / rest_q))


def _mean(values: list[float], clusters: list[int]) -> dict[str, Any] | None:
    if not values:
        return None
    found = np.array(values, dtype=np.float64)
    low, high = mean_interval(found, Clusters.of(found, np.array(clusters)))
    return {"mean": sum(values) / len(values), "low": low, "high": high, "n": len(values)}
