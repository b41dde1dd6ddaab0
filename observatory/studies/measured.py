"""What the runs of a trial measured, turn by turn, or why a turn has nothing that can be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from observatory.compare.sources import numbers_are_valid, stage_result
from observatory.compare.stages import Number, StageResult
from observatory.runs.models import Run
from observatory.studies.models import Arm, Slot, Trial


@dataclass(frozen=True)
class Turn:
    """``stage`` is missing while nothing can be used, and ``reason`` says why. ``waits``: its turn is still to come."""

    slot: Slot
    stage: StageResult | None
    reason: str = ""
    waits: bool = False

    @property
    def server_numbers(self) -> Mapping[str, float]:
        """By the server's own counters: shares, such as that of drafted tokens that were accepted, requests that were
        put back, and how many it computed on at once.
        """
        summary = (self.slot.run.summary if self.slot.run else None) or {}
        stage: Mapping[str, Any] = next(iter(summary.get("stages", [])), {})
        server = stage.get("server") or {}
        running = server.get("gauges", {}).get("requests_running", {}).get("mean")
        put_back = server.get("counters", {}).get("preemptions")
        found = {**server.get("shares", {}), "requests_running": running, "preemptions": put_back}
        return {name: value for name, value in found.items() if value is not None}

    def number(self, key: tuple[str, str]) -> Number | None:
        return None if self.stage is None else self.stage.numbers.get(key)


@dataclass(frozen=True)
class ArmTurns:
    """The turns of one arm by repeat."""

    arm: Arm
    turns: Mapping[int, Turn]

    @property
    def usable(self) -> Sequence[StageResult]:
        return [turn.stage for turn in self.turns.values() if turn.stage is not None]

    def values(self, key: tuple[str, str]) -> dict[int, float]:
        """By repeat, where there is one."""
        numbers = {repeat: turn.number(key) for repeat, turn in self.turns.items()}
        return {repeat: number.value for repeat, number in numbers.items() if number is not None}

    def means(self) -> dict[tuple[str, str], float]:
        """Of every statistic that some repeat has, and of what the server counted, over those that have it."""
        keys = dict.fromkeys(key for stage in self.usable for key in stage.numbers)
        found = {key: list(self.values(key).values()) for key in keys}
        for numbers in (turn.server_numbers for turn in self.turns.values() if turn.stage is not None):
            for name, value in numbers.items():
                found.setdefault((name, "mean"), []).append(value)
        return {key: sum(values) / len(values) for key, values in found.items()}


def turns_of(trial: Trial) -> list[Turn]:
    """In the order in which they run."""
    slots = trial.slots.filter(kind=Run.Kind.LOAD).select_related("run", "arm__deployment__endpoint")
    return [_turn(trial, slot) for slot in slots.prefetch_related("run__stages__measurements")]


def by_arm(turns: Sequence[Turn]) -> list[ArmTurns]:
    """The first is the baseline."""
    arms = {turn.slot.arm_id: turn.slot.arm for turn in turns}
    return [
        ArmTurns(arm, {turn.slot.repeat: turn for turn in turns if turn.slot.arm_id == arm.pk})
        for arm in sorted(arms.values(), key=lambda arm: arm.index)
    ]


def work_differs(arms: Sequence[ArmTurns]) -> bool:
    """Whether the design gives the arms different work on purpose."""
    first = arms[0].arm.spec.get("workload", {})
    return any(found.arm.spec.get("workload", {}) != first for found in arms)


def _turn(trial: Trial, slot: Slot) -> Turn:
    run = slot.run
    if run is None:
        words = slot.note or ("the trial ended before its turn" if trial.ended else "its turn is to come")
        return Turn(slot, None, words, waits=not slot.note and not trial.ended)
    if not run.ended:
        return Turn(slot, None, f"it is {run.status}", waits=True)
    stage = next(iter(run.stages.all()), None)
    if run.status != Run.Status.FINISHED or stage is None:
        return Turn(slot, None, f"run {run.pk} is {run.status}: {run.reason}")
    if not numbers_are_valid(run) or stage.verdict != "ok":
        return Turn(slot, None, f"run {run.pk} is not valid: {run.reason or stage.verdict}")
    return Turn(slot, stage_result(stage, f"run {run.pk}"))
