"""Prompt lengths as asked and as the server counted them, class by class."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from runners.load.rows import MISSING, StageRows

_TOLERANCE = 0.02


@dataclass(frozen=True)
class LengthClass:
    """Good requests that asked for ``low`` to ``high`` prompt tokens; means of what was asked and what was counted."""

    low: int
    high: int
    n: int
    asked: float
    counted: float

    @property
    def off(self) -> bool:
        return abs(self.counted - self.asked) > _TOLERANCE * self.asked

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "off": self.off}


def length_classes(rows: StageRows) -> list[LengthClass]:
    """Each class is twice as long as the one before."""
    asked, counted = rows.ints("asked_input_tokens"), rows.ints("input_tokens")
    known = rows.good & (asked > 0) & (counted != MISSING)
    asked, counted = asked[known], counted[known]
    doublings = np.floor(np.log2(np.maximum(asked, 1))).astype(np.int64)
    found = []
    for doubling in np.unique(doublings).tolist():
        members = doublings == doubling
        one = asked[members]
        means = float(one.mean()), float(counted[members].mean())
        found.append(LengthClass(int(one.min()), int(one.max()), int(members.sum()), *means))
    return found
