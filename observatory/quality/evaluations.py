"""Evaluations: queued as runs, so that none touches an endpoint while it is measured, and taken in when they ended."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.contrib.auth.models import User
from django.db import transaction

from observatory.catalog import wire
from observatory.catalog.models import Deployment
from observatory.quality import sets
from observatory.quality.models import QualityResult
from observatory.runs import money, spec, states
from observatory.runs.models import Run
from runners.quality.agreement import agreement
from runners.quality.answers import from_table
from runners.quality.spec import QualitySpec, longest
from runners.quality.tasks import TaskSet
from runners.spec import Extent
from runners.strict_json import SpecError

logger = logging.getLogger(__name__)


def build(
    deployment: Deployment, task_set: str | TaskSet, concurrency: int, output_tokens: int, target: Mapping[str, Any]
) -> QualitySpec:
    """``target``: dialect and body laid over the endpoint's. Raises SpecError that names the field and the fix."""
    chosen = sets.find(task_set) if isinstance(task_set, str) else task_set
    most = longest(chosen.tasks, output_tokens)
    known = wire.target(deployment.endpoint, spec.API_KEY_VARIABLE)
    asked = QualitySpec.from_json(
        {
            "target": {**known, **target, "extra_body": {**known["extra_body"], **target.get("extra_body", {})}},
            "tasks": {"name": chosen.name, "items": chosen.items},
            "concurrency": concurrency,
            "output_tokens": output_tokens,
        }
    )
    return replace(asked, budget=money.budget(deployment.endpoint, lambda: Extent(1, len(chosen.items), **most)))


def queue(
    deployment: Deployment,
    task_set: str | TaskSet,
    trigger: str,
    user: User | None = None,
    *,
    concurrency: int = QualitySpec.concurrency,
    output_tokens: int = QualitySpec.output_tokens,
    reference: Deployment | None = None,
    beside: Run | None = None,
    confirmed: str = "",
    target: Mapping[str, Any] = MappingProxyType({}),
) -> QualityResult:
    """A new evaluation; ``dispatch.publish`` its job to wake a worker. ``reference``: compared with that deployment's
    newest answers to the same tasks, as soon as there are some. ``target``: as of ``build``. Raises SpecError with what
    to change.
    """
    asked = build(deployment, task_set, concurrency, output_tokens, target)
    if beside is not None and (beside.deployment_id != deployment.pk or beside.kind != Run.Kind.LOAD):
        raise SpecError("run: give a load run of the same deployment, or none")
    if reference is not None and reference.pk == deployment.pk:
        raise SpecError("reference: give another deployment, or none")
    with transaction.atomic():
        job = states.queue_asked(
            asked,
            deployment,
            confirmed,
            kind=Run.Kind.QUALITY,
            trigger=trigger,
            started_by=user,
            setup=spec.deployment_setup(deployment),
        )
        return QualityResult.objects.create(
            deployment=deployment,
            job=job,
            beside=beside,
            source=QualityResult.Source.TASKS,
            task_set=asked.tasks.name,
            tasks_sha256=asked.tasks.sha256,
            target=dict(target),
            reference_deployment=reference,
            created_by=user,
        )


def take_in() -> None:
    """Puts down what jobs that ended well have found, then compares what can be compared by now. Safe to repeat."""
    ended = QualityResult.objects.filter(value=None, job__status=Run.Status.FINISHED, job__valid=True)
    for result in ended.select_related("job"):
        _fill(result)
    waiting = QualityResult.objects.known().filter(reference_deployment__isnull=False, agreement__isnull=True)
    for result in waiting:
        reference = newest_like(result, result.reference_deployment_id)
        if reference is not None:
            compare(result, reference)


def _fill(result: QualityResult) -> None:
    assert result.job is not None  # noqa: S101
    summary: dict[str, Any] = result.job.summary or {}
    overall = summary["score"]["overall"]
    QualityResult.objects.filter(pk=result.pk, value=None).update(
        value=overall["share"],
        low=overall["low"],
        high=overall["high"],
        n=overall["n"],
        summary=summary,
        measured_at=result.job.started_at,
    )


def newest_like(result: QualityResult, deployment_id: int | None) -> QualityResult | None:
    """The newest answers of a deployment to the tasks of ``result``."""
    alike = QualityResult.objects.known().filter(tasks_sha256=result.tasks_sha256, source=QualityResult.Source.TASKS)
    return alike.filter(deployment=deployment_id).exclude(pk=result.pk).select_related("job").first()


def compare(result: QualityResult, reference: QualityResult) -> bool:
    """Keeps how far two results agree. False where raw answers of either are not kept."""
    found = agreement_with(result, reference)
    if found is None:
        return False
    result.reference, result.reference_deployment_id = reference, reference.deployment_id
    result.agreement = found
    result.save(update_fields=["reference", "reference_deployment", "agreement"])
    return True


def agreement_with(result: QualityResult, reference: QualityResult) -> dict[str, Any] | None:
    """As kept where it is that reference's, else made of the answers; None where raw answers of either are not kept."""
    if result.agreement is not None and result.reference_id == reference.pk:
        kept: dict[str, Any] = result.agreement
        return kept
    own, theirs = answers(result), answers(reference)
    return None if own is None or theirs is None else agreement(from_table(theirs), from_table(own))


def answers(result: QualityResult) -> pa.Table | None:
    """The raw answers; None when none are kept or they cannot be read."""
    if result.job is None or not result.job.answers_file:
        return None
    try:
        with result.job.answers_file.open("rb") as file:
            return pq.read_table(file)
    except (OSError, pa.ArrowException):
        logger.warning("the answers of quality result %s cannot be read", result.pk)
        return None
