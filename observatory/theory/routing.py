"""Routing between a small and a large model: cost against quality.

Signal detection: the small model's confidence is normal, with unit variance, and higher where it is right by d =
sqrt(2) * Phi^-1(AUROC) (Green and Swets 1966). Cascades: Chen, Zaharia, Zou 2023, FrugalGPT; routers: Ong et al. 2024,
RouteLLM.
"""

from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from observatory.theory.calculator import Axis, Calculator, Line, Plot, refuse
from observatory.theory.fields import number, result, switch

_NORMAL = NormalDist()
_HALVINGS = 60


@dataclass(frozen=True)
class Inputs:
    small_accuracy: float = number(
        0.7,
        "",
        "Accuracy of the small model",
        "Share of requests that it answers well.",
        low=0.001,
        high=0.999,
        symbol="q_s",
    )
    large_accuracy: float = number(
        0.9, "", "Accuracy of the large model", "On all requests.", low=0.001, high=1, symbol="q_l"
    )
    large_on_hard: float = number(
        0.7,
        "",
        "Large model where the small fails",
        "Lower than on all: hard requests are hard for both.",
        low=0,
        high=1,
        symbol="q_h",
    )
    auroc: float = number(
        0.8,
        "",
        "Quality of the confidence",
        "AUROC: chance that a right answer scores above a wrong one. 0.5 knows nothing, 1 knows all.",
        low=0.5,
        high=0.9999,
        symbol="a",
    )
    escalated_share: float = number(
        0.3, "", "Share sent to the large model", "Those of lowest confidence.", low=0, high=1, symbol="x"
    )
    small_usd: float = number(0.0002, "$", "Cost of a request, small", "", low=0, high=1000, symbol="c_s")
    large_usd: float = number(0.004, "$", "Cost of a request, large", "", low=0, high=1000, symbol="c_l")
    decider_usd: float = number(
        0.0,
        "$",
        "Cost of deciding",
        "Of a classifier, per request; rules cost nothing.",
        low=0,
        high=1000,
        symbol="c_d",
    )
    decide_before: bool = switch(
        False,
        "Decided beforehand",
        "yes: a classifier or rules choose one model; no: a cascade asks the small one first.",
    )


@dataclass(frozen=True)
class Outputs:
    accuracy: float = result("", "Accuracy", "Of the two together.", decimals=3, better="higher")
    usd_per_query: float = result("$", "Cost per query", better="lower")
    cost_share: float | None = result(
        "%", "Cost against the large model alone", "Missing when that is free.", decimals=0, better="lower"
    )
    accuracy_gap: float = result("", "Accuracy against the large model alone", decimals=3, better="higher")
    kept_right: float = result("%", "Right among those kept", "By the small model.", decimals=1)
    hard_caught: float = result("%", "Hard requests sent on", "Of those that the small model fails.", decimals=1)
    random_accuracy: float = result("", "Accuracy of random routing", "At the same share.", decimals=3)
    best_share: float = result("", "Share of highest accuracy", "It can beat the large model alone.", decimals=2)
    best_accuracy: float = result("", "Highest accuracy", decimals=3, better="higher")


def _right_on_easy(inputs: Inputs) -> float:
    """The large model's accuracy where the small one is right, from its accuracy on all and on hard requests."""
    hard = (1 - inputs.small_accuracy) * inputs.large_on_hard
    easy = (inputs.large_accuracy - hard) / inputs.small_accuracy
    if not -1e-12 <= easy <= 1 + 1e-12:
        low = (inputs.large_accuracy - inputs.small_accuracy) / (1 - inputs.small_accuracy)
        high = inputs.large_accuracy / (1 - inputs.small_accuracy)
        raise refuse(
            "large_on_hard",
            "That does not fit the accuracies on all requests.",
            f"Give a number from {max(low, 0):.4g} to {min(high, 1):.4g}.",
        )
    return min(max(easy, 0.0), 1.0)


def _threshold(inputs: Inputs, shift: float) -> float:
    """The confidence below which the asked share of requests lies, by halving."""
    low, high = -40.0, shift + 40.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = inputs.small_accuracy * _NORMAL.cdf(middle - shift) + (1 - inputs.small_accuracy) * _NORMAL.cdf(middle)
        low, high = (middle, high) if below < inputs.escalated_share else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Split:
    """Shares of all requests: those kept and right, those sent on that the small model would get right and wrong."""

    kept_right: float
    kept: float
    sent_easy: float
    sent_hard: float


def split(inputs: Inputs) -> Split:
    """Who gets what at the asked share."""
    if inputs.escalated_share in (0.0, 1.0):
        sent = inputs.escalated_share
        easy, hard = sent * inputs.small_accuracy, sent * (1 - inputs.small_accuracy)
    else:
        shift = 2**0.5 * _NORMAL.inv_cdf(inputs.auroc)
        bound = _threshold(inputs, shift)
        easy = inputs.small_accuracy * _NORMAL.cdf(bound - shift)
        hard = (1 - inputs.small_accuracy) * _NORMAL.cdf(bound)
    return Split(inputs.small_accuracy - easy, 1 - inputs.escalated_share, easy, hard)


def _accuracy(inputs: Inputs) -> float:
    found = split(inputs)
    return found.kept_right + found.sent_easy * _right_on_easy(inputs) + found.sent_hard * inputs.large_on_hard


def _usd(inputs: Inputs) -> float:
    small = (1 - inputs.escalated_share) if inputs.decide_before else 1.0
    return inputs.decider_usd + small * inputs.small_usd + inputs.escalated_share * inputs.large_usd


def compute(inputs: Inputs) -> Outputs:
    """Accuracy and cost of the pair."""
    found, accuracy, usd = split(inputs), _accuracy(inputs), _usd(inputs)
    shares = [float(share) for share in np.linspace(0, 1, 101)]
    best = max(shares, key=lambda share: (round(_accuracy(replace(inputs, escalated_share=share)), 12), -share))
    share = inputs.escalated_share
    return Outputs(
        accuracy,
        usd,
        100 * usd / inputs.large_usd if inputs.large_usd else None,
        accuracy - inputs.large_accuracy,
        100 * (found.kept_right / found.kept if found.kept else inputs.small_accuracy),
        100 * found.sent_hard / (1 - inputs.small_accuracy),
        (1 - share) * inputs.small_accuracy + share * inputs.large_accuracy,
        best,
        _accuracy(replace(inputs, escalated_share=best)),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    shares = [float(share) for share in np.linspace(0, 1, 41)]
    frontier = [replace(inputs, escalated_share=share) for share in shares]
    costs = tuple(_usd(at) for at in frontier)
    routed = Line("by confidence", costs, tuple(_accuracy(at) for at in frontier))
    blind = Line(
        "at random",
        costs,
        tuple((1 - x) * inputs.small_accuracy + x * inputs.large_accuracy for x in shares),
        dashed=True,
    )
    by_quality = tuple(
        ROUTING.line(inputs, "escalated_share", "accuracy", f"AUROC {auroc:g}", auroc=auroc, points=41)
        for auroc in (0.6, 0.8, 0.95)
    )
    quality = Axis("Accuracy", "", "higher", from_zero=False)
    return (
        Plot(
            "Accuracy against cost",
            Axis("Cost per query", "$", "lower"),
            quality,
            (routed, blind),
            now=outputs.usd_per_query,
        ),
        Plot(
            "Accuracy over the share sent on",
            Axis("Share sent to the large model"),
            quality,
            by_quality,
            now=inputs.escalated_share,
        ),
    )


ROUTING = Calculator(
    name="routing",
    title="Routing small and large",
    subject="Models",
    summary="Easy requests to a small model, hard ones to a large one: accuracy and cost of a cascade or a router, "
    "given how well confidence tells right answers from wrong ones.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "confidence: N(d, 1) where the small model is right, N(0, 1) where it is wrong, d = √2·Φ^(−1)(a)",
        "x = q_s·Φ(θ − d) + (1 − q_s)·Φ(θ): sent on below θ",
        "accuracy = q_s·(1 − Φ(θ − d)) + q_s·Φ(θ − d)·q_e + (1 − q_s)·Φ(θ)·q_h",
        "q_e = (q_l − (1 − q_s)·q_h) / q_s",
        "cost = c_d + c_s + x·c_l; decided beforehand c_d + (1 − x)·c_s + x·c_l",
    ),
    symbols={"θ": "bound of the confidence", "q_e": "large model's accuracy where the small one is right"},
    source="Green and Swets 1966, Signal Detection Theory; Chen, Zaharia, Zou 2023, FrugalGPT; Ong et al. 2024, "
    "RouteLLM.",
    assumptions=(
        "Confidence is normal with equal variance on right and wrong answers.",
        "Sent requests are no easier or harder for the large model than the small model's being right or wrong tells.",
        "A cascade pays the small model for every request; latency of the second call is left out.",
    ),
    plots=_plots,
)
