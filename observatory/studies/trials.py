"""Carrying a study out: ordinary runs, one after the other, each queued when the one before has ended.

``advance`` may be called by anyone, as often as they like: it is when a run ends, and at every tick. What it does next
follows from the rows alone, so that a worker's death costs one run and nothing else.
"""

import logging

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from observatory.quality import evaluations
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from observatory.studies import design, quality, questions, verdict
from observatory.studies.findings import Result
from observatory.studies.measures import DesignError
from observatory.studies.models import Arm, Slot, Study, Trial
from runners.spec import SpecError

logger = logging.getLogger(__name__)


class Busy(Exception):
    """The study is being carried out already; ``trial`` is that one."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(f"{trial} of this study is still running: wait for its end, or cancel it.")
        self.trial = trial


def start(study: Study, trigger: str, user: User | None = None) -> Trial:
    """A new trial with its order drawn, and its first run queued. Raises Busy."""
    trial = create(study, trigger, user)
    advance(trial.pk)
    return trial


def create(study: Study, trigger: str, user: User | None = None) -> Trial:
    """A new trial with its order drawn; ``advance`` queues its first run. Raises Busy."""
    arms = list(study.arms.all())
    asked = questions.asked_once(study, arms) if study.quality else []
    turns = [(Run.Kind.LOAD, *turn) for turn in design.turns(study, arms)] + [
        (Run.Kind.QUALITY, 0, arm) for arm in asked
    ]
    try:
        with transaction.atomic():
            trial = Trial.objects.create(study=study, trigger=trigger, started_by=user)
            Slot.objects.bulk_create(
                Slot(trial=trial, index=index, kind=kind, repeat=repeat, arm=arm)
                for index, (kind, repeat, arm) in enumerate(turns)
            )
    except IntegrityError:
        raise Busy(study.trials.get(status=Trial.Status.RUNNING)) from None
    return trial


def advance_all() -> None:
    """Takes the next step of every running trial; one that fails does not hold up the others."""
    for pk in Trial.objects.filter(status=Trial.Status.RUNNING).values_list("pk", flat=True):
        try:
            advance(pk)
        except Exception:
            logger.exception("trial %s could not be taken further; the next tick tries again", pk)


def run_ended(run_id: int) -> None:
    """The run may be a turn of a trial: then the next one begins."""
    trial = Slot.objects.filter(run=run_id).values_list("trial_id", flat=True).first()
    if trial is not None:
        advance(trial)


def advance(trial_id: int) -> None:
    """Queues the next run, or ends the trial when every turn is over. Does nothing while a run is not over."""
    trial = Trial.objects.filter(pk=trial_id, status=Trial.Status.RUNNING).select_related("study").first()
    if trial is None:
        return
    slots = list(trial.slots.select_related("run", "arm__study", "arm__benchmark__deployment__endpoint"))
    if any(slot.run is not None and not slot.run.ended for slot in slots):
        return
    if any(slot.kind == Run.Kind.QUALITY and slot.run is not None for slot in slots):
        evaluations.take_in()
        quality.settle(trial)
    for slot in slots:
        if slot.run is None and not slot.note and _queue(trial, slot, slots):
            return
    _end(trial)


def _queue(trial: Trial, slot: Slot, slots: list[Slot]) -> bool:
    """Whether the slot has a run now. Else it has a note, for good: its turn is over."""
    slot.note = _given_up(slot.arm, slots)
    run = None
    if not slot.note:
        try:
            run = _claim(trial, slot)
        except (SpecError, DesignError) as error:
            slot.note = f"It cannot be run: {error}"
    if slot.note:
        Slot.objects.filter(pk=slot.pk, run=None).update(note=slot.note)
        return False
    if run is not None:
        dispatch.publish(run)
    return True


def _claim(trial: Trial, slot: Slot) -> Run | None:
    """The run of this slot; None when another caller has made it, or the trial has been cancelled meanwhile.

    Raises SpecError where it cannot be asked.
    """
    with transaction.atomic():
        if not list(Trial.objects.select_for_update().filter(pk=trial.pk, status=Trial.Status.RUNNING)):
            return None
        if not Slot.objects.filter(pk=slot.pk, run=None).exists():
            return None
        run = _evaluation(trial, slot.arm) if slot.kind == Run.Kind.QUALITY else _load(trial, slot)
        Slot.objects.filter(pk=slot.pk).update(run=run)
        return run


def _load(trial: Trial, slot: Slot) -> Run:
    asked = design.asked_of(slot.arm, slot.repeat)
    return states.queue(slot.arm.benchmark, Run.Trigger.STUDY, trial.started_by, asked=asked)


def _evaluation(trial: Trial, arm: Arm) -> Run:
    asked = questions.read(trial.study)
    assert asked is not None  # noqa: S101
    queued = evaluations.queue(
        arm.deployment,
        asked.chosen(),
        Run.Trigger.STUDY,
        trial.started_by,
        concurrency=asked.concurrency,
        output_tokens=asked.output_tokens,
        target=questions.target(trial.study, arm.spec),
    )
    assert queued.job is not None  # noqa: S101
    return queued.job


def _given_up(arm: Arm, slots: list[Slot]) -> str:
    """An arm whose first run failed, with nothing measured, is not tried again: it would only fail again."""
    own = [slot for slot in slots if slot.arm_id == arm.pk and slot.kind == Run.Kind.LOAD]
    runs = [slot.run for slot in own if slot.run is not None]
    if runs and all(run.status == Run.Status.FAILED for run in runs):
        return f"Run {runs[-1].pk} of this arm failed: {runs[-1].reason}"
    return ""


def _end(trial: Trial) -> None:
    found = verdict.of(trial)
    status = Trial.Status.FINISHED if found.comparable else Trial.Status.FAILED
    _close(trial.pk, status, found)


def _close(pk: int, status: Trial.Status, found: Result) -> bool:
    running = Trial.objects.filter(pk=pk, status=Trial.Status.RUNNING)
    return bool(running.update(status=status, ended_at=Now(), result=verdict.to_json(found)))


def cancel(trial: Trial) -> bool:
    """Stops the trial and its run; what was measured is kept and judged. False when it had ended already."""
    running = Trial.objects.filter(pk=trial.pk, status=Trial.Status.RUNNING)
    if not running.update(status=Trial.Status.CANCELLED, ended_at=Now()):
        return False
    for slot in trial.slots.filter(run__status__in=(Run.Status.QUEUED, Run.Status.RUNNING)):
        states.request_cancel(slot.run_id or 0)
    Trial.objects.filter(pk=trial.pk).update(result=verdict.to_json(verdict.of(trial)))
    return True
