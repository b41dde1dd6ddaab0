"""A logistic model that says from a prompt alone how likely the small model is to fail it.

``python -m runners.router.classifier`` makes ``classifier.json`` anew out of ``prompts.jsonl``: prompts written for it,
which its authors marked as easy or hard. Its judgement is no better than theirs.
"""

import functools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log2
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_FOLDER = Path(__file__).parent
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?")
_REASONING = frozenset(
    ("why", "prove", "derive", "explain", "compare", "contrast", "analyse", "analyze", "evaluate", "design", "debug",
     "optimise", "optimize", "implement", "critique", "justify", "assess", "step", "steps", "proof", "trade")
)  # fmt: skip
FEATURES = ("log2_words", "reasoning_words", "operators", "code_marks", "letters_per_word", "questions")
#: Weight of the squared coefficients: without it a few dozen prompts would be told apart perfectly.
_RIDGE = 1.0
_STEPS = 50
_DIGITS = 6

Floats = NDArray[np.float64]


def words_of(prompt: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(prompt)]


def features(prompt: str) -> tuple[float, ...]:
    """In the order of FEATURES; counts are capped, so that one long prompt is not beyond all others."""
    words = words_of(prompt)
    return (
        log2(1 + len(words)),
        float(min(3, sum(word in _REASONING for word in words))),
        float(min(5, len(re.findall(r"[=+*/^<>]|\d-\d", prompt)))),
        float(min(5, len(re.findall(r"[{}();]|def |class |SELECT ", prompt)))),
        sum(map(len, words)) / len(words) if words else 0.0,
        float(min(3, prompt.count("?"))),
    )


@dataclass(frozen=True)
class Classifier:
    """Coefficients of features that are centred by ``means`` and divided by ``deviations``."""

    means: tuple[float, ...]
    deviations: tuple[float, ...]
    coefficients: tuple[float, ...]
    intercept: float

    @classmethod
    def from_json(cls, data: Any) -> Self:
        rows = [tuple(data["features"][name][key] for name in FEATURES) for key in ("mean", "deviation", "coefficient")]
        return cls(rows[0], rows[1], rows[2], data["intercept"])

    def probability(self, prompt: str) -> float:
        """That the prompt is hard."""
        parts = zip(features(prompt), self.means, self.deviations, self.coefficients, strict=True)
        score = self.intercept + sum(weight * (value - mean) / spread for value, mean, spread, weight in parts)
        return 1 / (1 + exp(-score))


@functools.cache
def shipped() -> Classifier:
    return Classifier.from_json(json.loads((_FOLDER / "classifier.json").read_text()))


# making it


def examples() -> list[tuple[str, bool]]:
    """(prompt, whether it is hard)."""
    lines = (_FOLDER / "prompts.jsonl").read_text().splitlines()
    return [(line["prompt"], line["hard"]) for line in map(json.loads, lines)]


def fit(labelled: Sequence[tuple[str, bool]]) -> Classifier:
    """Ridge logistic regression by Newton's method (Hastie, Tibshirani, Friedman, The Elements of Statistical Learning,
    section 4.4); the intercept is not drawn towards 0.
    """
    table: Floats = np.array([features(prompt) for prompt, _ in labelled])
    means, deviations = table.mean(axis=0), table.std(axis=0)
    deviations[deviations == 0] = 1.0
    design = np.column_stack([np.ones(len(table)), (table - means) / deviations])
    hard = np.array([float(label) for _, label in labelled])
    ridge = _RIDGE * np.diag([0.0, *np.ones(len(FEATURES))])
    found = np.zeros(design.shape[1])
    for _ in range(_STEPS):
        chance = 1 / (1 + np.exp(-design @ found))
        curvature = design.T @ (design * (chance * (1 - chance))[:, None]) + ridge
        found += np.linalg.solve(curvature, design.T @ (hard - chance) - ridge @ found)
    rounded = [tuple(round(float(value), _DIGITS) for value in row) for row in (means, deviations, found)]
    return Classifier(rounded[0], rounded[1], rounded[2][1:], rounded[2][0])


def left_out_accuracy(labelled: Sequence[tuple[str, bool]]) -> float:
    """Share of prompts that are judged rightly by a model that was fitted without them."""
    right = [
        (fit([*labelled[:index], *labelled[index + 1 :]]).probability(prompt) >= 0.5) is hard
        for index, (prompt, hard) in enumerate(labelled)
    ]
    return sum(right) / len(right)


def to_json() -> dict[str, Any]:
    """The shipped file, with how it was made."""
    labelled = examples()
    made = fit(labelled)
    rows = zip(FEATURES, made.means, made.deviations, made.coefficients, strict=True)
    return {
        "made_by": "python -m runners.router.classifier",
        "made_from": f"prompts.jsonl: {len(labelled)} prompts, {sum(hard for _, hard in labelled)} of them hard, "
        "written and marked by the authors",
        "method": f"logistic regression, ridge {_RIDGE:g}, features centred and scaled",
        "left_out_accuracy": round(left_out_accuracy(labelled), 3),
        "intercept": made.intercept,
        "features": {
            name: {"mean": mean, "deviation": spread, "coefficient": weight} for name, mean, spread, weight in rows
        },
    }


if __name__ == "__main__":
    (_FOLDER / "classifier.json").write_text(json.dumps(to_json(), indent=2) + "\n")
