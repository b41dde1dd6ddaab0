"""Evaluations, results of lm-eval, and task sets."""

from datetime import datetime
from typing import Annotated, Any

from ninja import Field, FilterSchema, Query, Router, Schema, Status

from observatory.api.auth import Request
from observatory.api.errors import Fault, Problem, refused
from observatory.api.records import get
from observatory.api.runs import WAITS, RowsOut, rows_of
from observatory.api.shapes import (
    BAD_BODY,
    CONFLICT,
    ERRORS,
    NOT_FOUND,
    Input,
    Key,
    Line,
    Listed,
    Page,
    PathKey,
    page_of,
)
from observatory.catalog.models import Deployment
from observatory.quality import evaluations, imports, sets
from observatory.quality.models import QualityQuerySet, QualityResult, TaskSet
from observatory.runs import dispatch, money
from observatory.runs.models import Run
from runners.quality.spec import QualitySpec
from runners.quality.tasks import BUILT_IN
from runners.strict_json import SpecError

router = Router(tags=["quality"])


class EvaluationIn(Input):
    deployment_id: Key
    task_set: Annotated[Line, Field(max_length=100)] = BUILT_IN
    reference_deployment_id: Annotated[
        Key | None, Field(description="Compared with its newest answers to the same tasks, now or when there are some")
    ] = None
    run_id: Annotated[Key | None, Field(description="The load run of the deployment that this stands beside")] = None
    concurrency: Annotated[int, Field(ge=1, le=512)] = QualitySpec.concurrency
    output_tokens: Annotated[int, Field(ge=1, le=100_000)] = QualitySpec.output_tokens
    confirm_usd: Annotated[Line, Field(max_length=30, description="The amount that a refusal asks for")] = ""


class LmEvalIn(Input):
    deployment_id: Key
    run_id: Key | None = None
    results: Annotated[dict[str, Any], Field(description="The content of lm-eval's results_*.json")]


class TaskSetIn(Input):
    name: Annotated[Line, Field(min_length=1, max_length=100)]
    lines: Annotated[str, Field(max_length=16_000_000, description="JSONL as docs/quality.md lists it")]


class TaskSetOut(Schema):
    id: int
    name: str
    sha256: str
    items: int
    created_at: datetime


class ReferenceIn(Input):
    reference_id: Annotated[Key, Field(description="A result of the same tasks")]


class QualityOut(Schema):
    """``value``, ``low`` and ``high`` are shares from 0 to 1 (95 %); null until the job ended well."""

    id: int
    deployment_id: int
    job_id: int | None
    status: str | None
    run_id: Annotated[int | None, Field(alias="beside_id")]
    source: str
    task_set: str
    tasks_sha256: str
    target: Annotated[Any, Field(description="What was asked otherwise than the endpoint says, by an arm of a study")]
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int | None
    measured_at: datetime | None
    reference_deployment_id: int | None
    reference_id: int | None
    agreement: Any

    @staticmethod
    def resolve_status(item: QualityResult) -> str | None:
        return item.job.status if item.job else None


class QualityDetailOut(QualityOut):
    summary: Any


class EvaluationOut(QualityOut):
    notice: str = ""


class QualityFilter(FilterSchema):
    deployment_id: Key | None = None
    source: QualityResult.Source | None = None
    task_set: Annotated[Line | None, Field(max_length=200)] = None
    tasks_sha256: Annotated[Line | None, Field(max_length=64)] = None


def _stored() -> QualityQuerySet:
    return QualityResult.objects.all().select_related("job")


def _load_run(key: int | None) -> Run | None:
    return None if key is None else get(Run.objects.filter(kind=Run.Kind.LOAD), key)


@router.get("", summary="Quality results, with filters", response={200: Listed[QualityOut], **ERRORS})
def results(request: Request, filters: Query[QualityFilter], page: Query[Page]) -> Any:
    """Newest first."""
    return page_of(filters.filter(_stored()), page)


@router.post("", summary="Evaluate a deployment", response={201: EvaluationOut, **ERRORS, **NOT_FOUND, **BAD_BODY})
def evaluate(request: Request, payload: EvaluationIn) -> Any:
    """Queues an evaluation as a run of its own kind; `/runs/{job_id}/cancel` stops it."""
    deployment = get(Deployment.objects.all(), payload.deployment_id)
    other = payload.reference_deployment_id
    reference = None if other is None else get(Deployment.objects.all(), other)
    try:
        queued = evaluations.queue(
            deployment,
            payload.task_set,
            Run.Trigger.API,
            request.auth,
            concurrency=payload.concurrency,
            output_tokens=payload.output_tokens,
            reference=reference,
            beside=_load_run(payload.run_id),
            confirmed=payload.confirm_usd,
        )
    except money.NotConfirmed as error:
        raise refused([Fault(field="confirm_usd", problem=str(error))]) from None
    except SpecError as error:
        raise refused([Fault(field=str(error).partition(":")[0], problem=str(error))]) from None
    assert queued.job is not None  # noqa: S101
    woken = dispatch.publish(queued.job)
    return Status(201, EvaluationOut.from_orm(queued).model_copy(update={"notice": "" if woken else WAITS}))


@router.post(
    "/lm-eval", summary="Keep results of lm-eval", response={201: QualityDetailOut, **ERRORS, **NOT_FOUND, **BAD_BODY}
)
def keep(request: Request, payload: LmEvalIn) -> Any:
    """Takes the content of a results file of lm-evaluation-harness, newer or older."""
    deployment = get(Deployment.objects.all(), payload.deployment_id)
    try:
        kept = imports.add_parsed(payload.results, deployment, request.auth, _load_run(payload.run_id))
    except SpecError as error:
        raise refused([Fault(field="results", problem=str(error))]) from None
    return Status(201, kept)


@router.get("/task-sets", summary="Uploaded task sets", response={200: Listed[TaskSetOut], **ERRORS})
def task_sets(request: Request, page: Query[Page]) -> Any:
    """The one that comes along, "basic", is not among them."""
    return page_of(TaskSet.objects.all(), page)


@router.post("/task-sets", summary="Keep a task set", response={201: TaskSetOut, **ERRORS, **BAD_BODY})
def keep_set(request: Request, payload: TaskSetIn) -> Any:
    """A set never changes: another one needs another name."""
    try:
        return Status(201, sets.add(payload.name, payload.lines.encode("utf-8", "surrogatepass"), request.auth))
    except SpecError as error:
        field = "name" if str(error).startswith("name:") else "lines"
        raise refused([Fault(field=field, problem=str(error))]) from None


@router.get("/{key}", summary="One quality result", response={200: QualityDetailOut, **ERRORS, **NOT_FOUND})
def result(request: Request, key: PathKey) -> Any:
    """With scores by kind and topic, failures, and agreement."""
    return get(_stored(), key)


@router.get("/{key}/answers", summary="Answers to each task", response={200: RowsOut, **ERRORS, **NOT_FOUND})
def answers(request: Request, key: PathKey, page: Query[Page]) -> Any:
    """Rows as docs/quality.md lists them."""
    found = get(_stored(), key)
    if found.job is None:
        raise Problem(404, "no_rows", "An uploaded result has no answers.", "Read its summary.")
    return rows_of(found.job, "answers_file", page)


@router.post(
    "/{key}/compare",
    summary="Compare with a reference",
    response={200: QualityDetailOut, **ERRORS, **NOT_FOUND, **CONFLICT, **BAD_BODY},
)
def compare(request: Request, key: PathKey, payload: ReferenceIn) -> Any:
    """Agreement of its answers with those of another result of the same tasks."""
    found, reference = get(_stored(), key), get(_stored(), payload.reference_id)
    if found.tasks_sha256 != reference.tasks_sha256 or found.pk == reference.pk:
        raise refused([Fault(field="reference_id", problem="Choose another result of the same task set.")])
    if not evaluations.compare(found, reference):
        raise Problem(409, "no_rows", "The answers of one of the two are not kept.", "Evaluate that deployment again.")
    return found
