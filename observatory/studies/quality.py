"""How well the arms of a trial answer: by the trial's own evaluations, else by what is known of their deployments."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from observatory.compare.quality import best_covered
from observatory.quality import evaluations
from observatory.quality.models import QualityResult
from observatory.runs.models import Run
from observatory.studies import questions
from observatory.studies.findings import DECIDED, ArmQuality, Effect, Quality, Word
from observatory.studies.judging import judged
from observatory.studies.measures import DesignError, Measure
from observatory.studies.models import Arm, Slot, Study, Trial
from observatory.studies.statistics import CONFIDENCE, Estimate
from runners.metrics import BY_KEY, Better, significant
from runners.quality.statistics import paired_difference, unpaired_difference

ACCURACY = Measure(BY_KEY["accuracy"], "mean", Better.HIGHER)

#: Results with a number, by the fingerprint of their task set.
Known = Mapping[str, QualityResult]


def of(trial: Trial, arms: Sequence[Arm], chosen: str = "") -> Quality:
    """``chosen``: the fingerprint of a task set; without it, or where no arm knows it, that of the study, else the one
    that most arms were asked.
    """
    study = trial.study
    slots = list(trial.slots.filter(kind=Run.Kind.QUALITY).select_related("arm", "run__quality"))
    own = [next((slot for slot in slots if questions.same_answers(study, arm, slot.arm)), None) for arm in arms]
    known = [_known(study, arm, slot) for arm, slot in zip(arms, own, strict=True)]
    sets = {sha256: found.task_set for of_arm in known for sha256, found in of_arm.items()}
    asked, name = _asked(study, slots)
    ranks = [{key: found.pk for key, found in of_arm.items()} for of_arm in known]
    sha256 = chosen if chosen in sets else asked or best_covered(ranks)
    by_trial = bool(asked) and sha256 == asked
    found = [
        replace(_of_trial(trial, arm, slot) if by_trial else _from_before(arm, of_arm.get(sha256)), slot=slot)
        for arm, slot, of_arm in zip(arms, own, known, strict=True)
    ]
    shown = name if by_trial else sets.get(sha256, "")
    return Quality(shown, sha256, by_trial, _compared(study, found), tuple(sets.items()))


def _asked(study: Study, slots: Sequence[Slot]) -> tuple[str, str]:
    """Fingerprint and name of the set that the trial asks; empty where it asks none."""
    result = next((slot.run.quality for slot in slots if slot.run is not None), None)
    if result is not None:
        return result.tasks_sha256, result.task_set
    try:
        asked = questions.read(study) if slots else None
    except DesignError:  # the set is no longer there
        return "", ""
    return (asked.chosen().sha256, asked.chosen().name) if asked else ("", "")


def _known(study: Study, arm: Arm, slot: Slot | None) -> Known:
    """The newest of the arm's deployment, where the arm asks no otherwise than that; the trial's own wins."""
    plain = QualityResult.objects.known().filter(deployment=arm.deployment_id).select_related("job").order_by("pk")
    found = {} if questions.target(study, arm.spec) else {result.tasks_sha256: result for result in plain}
    if slot is not None and slot.run is not None and slot.run.quality.value is not None:
        found[slot.run.quality.tasks_sha256] = slot.run.quality
    return found


def _of_trial(trial: Trial, arm: Arm, slot: Slot | None) -> ArmQuality:
    run = slot.run if slot else None
    if run is None:
        note = slot.note if slot else ""
        reason = note or ("the trial ended before its turn" if trial.ended else "its turn is to come")
        return ArmQuality(arm, None, in_trial=True, reason=reason, waits=not note and not trial.ended)
    if run.quality.value is not None:
        return ArmQuality(arm, run.quality, in_trial=True)
    if not run.ended:
        return ArmQuality(arm, None, in_trial=True, reason=f"it is {run.status}", waits=True)
    again = _asked_again(run.quality)
    if again is not None:
        return ArmQuality(arm, again, reason="asked again after the trial's own evaluation had failed")
    state = run.status if run.status != Run.Status.FINISHED else "not valid"
    return ArmQuality(arm, None, in_trial=True, reason=f"evaluation {run.pk} is {state}: {run.reason}")


def _asked_again(failed: QualityResult) -> QualityResult | None:
    """The newest later result of the same questions, put in the same way to the same deployment."""
    same = {name: getattr(failed, name) for name in ("deployment_id", "tasks_sha256", "target")}
    later = QualityResult.objects.filter(value__isnull=False, pk__gt=failed.pk, **same)
    return later.select_related("job").first()


def _from_before(arm: Arm, result: QualityResult | None) -> ArmQuality:
    return ArmQuality(arm, result, reason="" if result else "the deployment has no result on it")


def _compared(study: Study, found: Sequence[ArmQuality]) -> tuple[ArmQuality, ...]:
    """All against the first."""
    baseline, *others = found
    return (baseline, *(_against(study, baseline.found, other, len(others)) for other in others))


def _against(study: Study, base: QualityResult | None, other: ArmQuality, comparisons: int) -> ArmQuality:
    if other.found is None:
        return replace(other, effect=Effect(Word.REFUSED, reason=other.reason))
    if base is None:
        return replace(other, effect=Effect(Word.REFUSED, reason="there is none of the baseline"))
    if other.found.pk == base.pk:
        return replace(other, effect=Effect(Word.IDENTICAL, reason="one evaluation stands for both"))
    agreement = evaluations.agreement_with(other.found, base)
    if agreement is None or not agreement["paired"]:
        return replace(other, effect=_unpaired(study, base, other.found))
    effect = _paired(agreement, study.smallest_effect_percent, comparisons)
    return replace(other, effect=effect, agreement=agreement)


def _paired(agreement: Mapping[str, Any], smallest: float, comparisons: int) -> Effect:
    """Both the interval and McNemar's test must say that there is a difference."""
    flips = agreement["flips"]
    low, high = paired_difference(flips["right_to_wrong"], flips["wrong_to_right"], flips["n"], comparisons)
    value = flips["difference"]
    estimate = Estimate(100 * value, 100 * min(low, value), 100 * max(high, value), flips["n"])
    if agreement["identical"]["share"] == 1:
        return Effect(Word.IDENTICAL, estimate, relative=False)
    effect = judged(ACCURACY, estimate, False, smallest)
    if effect.word in DECIDED and flips["p_value"] >= (1 - CONFIDENCE) / comparisons:
        return Effect(Word.UNCLEAR, estimate, False, f"McNemar's p = {significant(flips['p_value'], 2)}")
    return effect


def _unpaired(study: Study, base: QualityResult, other: QualityResult) -> Effect:
    """Where single answers are not kept, as of an uploaded result: by the two intervals."""
    first, second = _bounds(base), _bounds(other)
    if first is None or second is None:
        return Effect(Word.REFUSED, reason="neither answers nor intervals of both are kept")
    low, high = unpaired_difference(first, second)
    estimate = Estimate(100 * (second[0] - first[0]), 100 * low, 100 * high, min(base.n or 0, other.n or 0))
    return judged(ACCURACY, estimate, False, study.smallest_effect_percent)


def _bounds(result: QualityResult) -> tuple[float, float, float] | None:
    if result.value is None or result.low is None or result.high is None:
        return None
    return result.value, result.low, result.high


def settle(trial: Trial) -> None:
    """Keeps how far each arm's answers agree with the baseline's, so that nobody needs to read them again."""
    arms = of(trial, list(trial.study.arms.select_related("deployment"))).arms
    base = arms[0].found
    for arm in arms[1:]:
        if arm.in_trial and arm.found and base and base.pk not in (arm.found.pk, arm.found.reference_id):
            evaluations.compare(arm.found, base)
