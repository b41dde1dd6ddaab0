"""The answer of a study: means and paired effects over repeats, theory beside them, and a verdict with its reason."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from observatory.compare.refusals import refusal_of, refusals
from observatory.studies import measures, prediction, quality, quality_rows
from observatory.studies.findings import Cell, Effect, Missing, Result, Row, Word
from observatory.studies.judging import judged
from observatory.studies.measured import ArmTurns, by_arm, turns_of, work_differs
from observatory.studies.measures import Measure
from observatory.studies.models import Study, Trial
from observatory.studies.prediction import Subject
from observatory.studies.quality_words import beside, quality_notes
from observatory.studies.statistics import MIN_REPEATS, mean, paired_difference, paired_ratio
from observatory.studies.words import answer, notes
from runners.metrics import Mark


def of(trial: Trial, task_set: str = "") -> Result:
    """What the trial says as it stands; it may still be running. ``task_set``: the fingerprint of that on which quality
    is shown; that of the study, else the one that most arms were asked.
    """
    study, turns = trial.study, turns_of(trial)
    arms = by_arm(turns)
    rows = tuple(_row(study, measure, arms) for measure in measures.read(study.measures))
    if study.prediction:
        rows = (_with_theory(study, rows[0], arms), *rows[1:])
    missing = tuple(
        Missing(turn.slot.arm.name, turn.slot.repeat, turn.slot.run_id, turn.reason)
        for turn in turns
        if turn.stage is None and not turn.waits
    )
    found = quality.of(trial, [found.arm for found in arms], task_set)
    word, words = beside(*answer(rows[0], [arm.arm for arm in found.arms]), found)
    said = (*notes(study, rows[0], arms, missing), *quality_notes(found))
    return Result(tuple(arms), tuple(turns), rows, missing, words, word, said, found)


def _row(study: Study, measure: Measure, arms: Sequence[ArmTurns]) -> Row:
    baseline, *others = arms
    other_work = work_differs(arms)
    cells = [_cell(measure, baseline, None)]
    for arm in others:
        effect = _refused(measure, baseline, arm, other_work) or _effect(study, measure, baseline, arm, len(others))
        cells.append(_cell(measure, arm, effect))
    return Row(measure, tuple(cells))


def _cell(measure: Measure, arm: ArmTurns, effect: Effect | None) -> Cell:
    values = arm.values(measure.key)
    numbers = [turn.number(measure.key) for turn in arm.turns.values()]
    marks = {number.mark for number in numbers if number is not None} or {Mark.MEASURED.value}
    weakest = next(mark for mark in (Mark.ASSUMED, Mark.MODELLED, Mark.MEASURED) if mark in marks)
    return Cell(mean(list(values.values())), values, weakest.value, effect)


def _refused(measure: Measure, baseline: ArmTurns, arm: ArmTurns, other_work: bool) -> Effect | None:
    for base, other in zip(baseline.usable, arm.usable, strict=False):
        reason = refusal_of(measure.metric.key, refusals(base, other, other_work=other_work))
        if reason:
            return Effect(Word.REFUSED, reason=reason)
    return None


def _effect(study: Study, measure: Measure, baseline: ArmTurns, arm: ArmTurns, comparisons: int) -> Effect:
    """Over repeats that both arms have; as a ratio unless a share is compared or something is zero."""
    first, second = baseline.values(measure.key), arm.values(measure.key)
    repeats = sorted(first.keys() & second.keys())
    base, other = [first[repeat] for repeat in repeats], [second[repeat] for repeat in repeats]
    relative = measure.metric.unit != "%" and all(value > 0 for value in (*base, *other))
    estimate = (paired_ratio if relative else paired_difference)(base, other, comparisons)
    if estimate is None:
        return Effect(Word.REFUSED, None, relative, _why_none(measure, first, second))
    if estimate.n < MIN_REPEATS:
        return Effect(Word.TOO_FEW, estimate, relative, f"{estimate.n} of at least {MIN_REPEATS}")
    return judged(measure, estimate, relative, study.smallest_effect_percent)


def _why_none(measure: Measure, first: Mapping[int, float], second: Mapping[int, float]) -> str:
    if first and second:
        return "the two arms share no repeat"
    return f"no repeat has a {measure.label} of both"


def _with_theory(study: Study, row: Row, arms: Sequence[ArmTurns]) -> Row:
    subjects = [Subject(found.arm.name, found.arm.deployment, found.arm.theory, found.means()) for found in arms]
    predicted = prediction.predict(study.prediction, row.measure, subjects)
    cells = [dataclasses.replace(cell, predicted=one) for cell, one in zip(row.cells, predicted, strict=True)]
    return Row(row.measure, tuple(cells))


def to_json(result: Result) -> dict[str, Any]:
    """JSON-ready; missing is null."""
    return {
        "answer": result.answer,
        "verdict": result.word,
        "comparable": result.comparable,
        "arms": [found.arm.name for found in result.arms],
        "rows": flat_rows(result),
        "quality": quality_rows.to_json(result.quality),
        "missing": [dataclasses.asdict(missing) for missing in result.missing],
        "notes": list(result.notes),
    }


def flat_rows(result: Result) -> list[dict[str, Any]]:
    """One row per measure and arm, the same columns in each: for JSON and CSV."""
    measured = [
        _flat(row.measure, found, cell)
        for row in result.rows
        for found, cell in zip(result.arms, row.cells, strict=True)
    ]
    return measured + quality_rows.flat(result.quality)


def _flat(measure: Measure, found: ArmTurns, cell: Cell) -> dict[str, Any]:
    effect = cell.effect
    estimate = effect.estimate if effect else None
    return {
        "metric": measure.metric.key,
        "statistic": measure.statistic,
        "unit": measure.metric.unit,
        "arm": found.arm.name,
        "deployment": found.arm.deployment.name,
        "x": found.arm.x,
        "value": cell.mean.value if cell.mean else None,
        "value_low": cell.mean.low if cell.mean else None,
        "value_high": cell.mean.high if cell.mean else None,
        "repeats": cell.mean.n if cell.mean else 0,
        "questions": None,
        "mark": cell.mark,
        "effect": None if estimate is None else ("ratio" if effect and effect.relative else "difference"),
        "effect_value": estimate.value if estimate else None,
        "effect_low": estimate.low if estimate else None,
        "effect_high": estimate.high if estimate else None,
        "verdict": effect.word.value if effect else "baseline",
        "reason": effect.reason if effect else "",
        "predicted": cell.predicted.value if cell.predicted else None,
        "predicted_reason": cell.predicted.reason if cell.predicted else "",
        "measured_over_predicted": cell.measured_over_predicted,
    }
