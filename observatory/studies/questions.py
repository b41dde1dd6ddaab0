"""The questions that a study puts to each arm, once in a trial, so that quality stands beside speed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from observatory.quality import evaluations, sets
from observatory.studies.measures import DesignError
from observatory.studies.models import Arm, Study
from runners.quality.spec import QualitySpec
from runners.quality.tasks import BUILT_IN, TaskSet
from runners.strict_json import SpecError, build

#: What is asked where nothing else is said.
BASIC: Mapping[str, Any] = {"task_set": BUILT_IN}


@dataclass(frozen=True)
class Questions:
    """``questions``: so many of the set, evenly spread; None: all. One at a time, since batches of other sizes round
    otherwise, and even one engine would not always agree with itself.
    """

    task_set: str = BUILT_IN
    questions: int | None = None
    concurrency: int = 1
    output_tokens: int = QualitySpec.output_tokens

    def chosen(self) -> TaskSet:
        """Raises SpecError."""
        return sets.find(self.task_set, self.questions)


def read(study: Study) -> Questions | None:
    """None where nothing is asked. Raises DesignError."""
    if not study.quality:
        return None
    try:
        found = build(Questions, study.quality, "quality")
        assert isinstance(found, Questions)  # noqa: S101
        found.chosen()
    except SpecError as error:
        raise DesignError("quality", str(error)) from None
    return found


def target(study: Study, arm_spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the arm is asked otherwise than its endpoint says."""
    laid, over = study.spec.get("target", {}), arm_spec.get("target", {})
    body = {**laid.get("extra_body", {}), **over.get("extra_body", {})}
    return {**laid, **over} | ({"extra_body": body} if body else {})


def spec(study: Study, asked: Questions, arm: Any) -> QualitySpec:
    """``arm``: stored or planned. Raises SpecError."""
    laid = target(study, arm.spec)
    return evaluations.build(arm.deployment, asked.chosen(), asked.concurrency, asked.output_tokens, laid)


def check(study: Study, arms: Iterable[Any]) -> None:
    """Raises DesignError where the questions could not be put to one of the planned arms."""
    asked = read(study)
    if asked is None:
        return
    for plan in arms:
        try:
            spec(study, asked, plan)
        except SpecError as error:
            raise DesignError("quality", f"{plan.name}: {error}") from None


def same_answers(study: Study, one: Arm, other: Arm) -> bool:
    """Whether both put the same requests to the same deployment, so that one evaluation stands for both."""
    return one.deployment_id == other.deployment_id and target(study, one.spec) == target(study, other.spec)


def asked_once(study: Study, arms: Sequence[Arm]) -> list[Arm]:
    """The arms that are asked: the first of those that would be asked the same."""
    return [
        arm for index, arm in enumerate(arms) if not any(same_answers(study, arm, before) for before in arms[:index])
    ]
