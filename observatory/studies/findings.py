"""What a trial found, as data: effects, cells of the table, the answer."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from observatory.quality.models import QualityResult
from observatory.studies.measured import ArmTurns, Turn
from observatory.studies.measures import Measure
from observatory.studies.models import Arm, Slot
from observatory.studies.prediction import Predicted
from observatory.studies.statistics import Estimate


class Word(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    HIGHER = "higher"
    LOWER = "lower"
    IDENTICAL = "identical answers"
    NO_MATTER = "no difference that matters"
    UNCLEAR = "no clear difference"
    TOO_FEW = "too few repeats"
    REFUSED = "cannot be compared"


DECIDED = frozenset({Word.BETTER, Word.WORSE, Word.HIGHER, Word.LOWER})


@dataclass(frozen=True)
class Effect:
    """Against the baseline, over the repeats that both have. ``relative``: the estimate is arm / baseline, else the
    difference in the measure's unit.
    """

    word: Word
    estimate: Estimate | None = None
    relative: bool = True
    reason: str = ""


@dataclass(frozen=True)
class Cell:
    """One measure of one arm. ``values`` by repeat. The baseline has no effect."""

    mean: Estimate | None
    values: Mapping[int, float]
    mark: str
    effect: Effect | None
    predicted: Predicted | None = None

    @property
    def measured_over_predicted(self) -> float | None:
        if self.mean is None or self.predicted is None or not self.predicted.value:
            return None
        return self.mean.value / self.predicted.value


@dataclass(frozen=True)
class Row:
    measure: Measure
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Missing:
    arm: str
    repeat: int
    run: int | None
    reason: str


@dataclass(frozen=True)
class ArmQuality:
    """How well an arm answers. ``found``: the evaluation that stands for it; missing, and then ``reason`` says why, and
    ``waits`` whether it is still to come. ``slot``: the turn of the trial that asks; ``in_trial``: ``found`` is of it,
    and not known from before. ``effect``: difference of the accuracies in points, against the baseline; ``agreement``
    with the baseline's answers, as of ``runners.quality.agreement``.
    """

    arm: Arm
    found: QualityResult | None
    slot: Slot | None = None
    in_trial: bool = False
    reason: str = ""
    waits: bool = False
    effect: Effect | None = None
    agreement: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Quality:
    """Of all arms, the baseline first, on one task set. ``asked``: the study asks it itself. ``sets``: (fingerprint,
    name) of those on which some arm has a number.
    """

    task_set: str
    sha256: str
    asked: bool
    arms: tuple[ArmQuality, ...]
    sets: tuple[tuple[str, str], ...] = ()

    @property
    def known(self) -> bool:
        return any(arm.found is not None for arm in self.arms)


@dataclass(frozen=True)
class Result:
    """``rows`` one a measure, the deciding one first; their cells one an arm, the baseline first. ``comparable``: some
    arm stands against the baseline.
    """

    arms: tuple[ArmTurns, ...]
    turns: tuple[Turn, ...]
    rows: tuple[Row, ...]
    missing: tuple[Missing, ...]
    answer: str
    word: str
    notes: tuple[str, ...]
    quality: Quality

    @property
    def comparable(self) -> bool:
        effects = [cell.effect for cell in self.rows[0].cells if cell.effect is not None]
        return any(effect.estimate is not None for effect in effects)
