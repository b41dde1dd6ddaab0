from datetime import datetime
from typing import Annotated, Any

from ninja import Field, Query, Router, Schema, Status

from observatory.api.auth import Request
from observatory.api.errors import Fault, Problem, refused
from observatory.api.records import get
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
from observatory.runs.models import Run
from observatory.studies import design, ready_made, trials, verdict
from observatory.studies.design import MAX_ARMS, MAX_REPEATS, MIN_ARMS, ArmPlan
from observatory.studies.measures import DesignError
from observatory.studies.models import Arm, Study, Trial

router = Router(tags=["studies"])
trials_router = Router(tags=["studies"])

Text = Annotated[str, Field(max_length=2000, pattern=r"^[^\x00]*$")]
Name = Annotated[Line, Field(min_length=1, max_length=60)]
Repeats = Annotated[int, Field(ge=1, le=MAX_REPEATS)]
Object = Annotated[dict[str, Any], Field(description="As docs/studies.md describes it")]


class ArmIn(Input):
    name: Annotated[Line, Field(min_length=1, max_length=36)]
    deployment_id: Key
    spec: Object = {}
    theory: Object = {}
    x: float | None = None


class StudyIn(Input):
    """The first arm is the baseline, the first measure decides."""

    name: Name
    question: Annotated[Text, Field(min_length=1)]
    arms: Annotated[list[ArmIn], Field(min_length=MIN_ARMS, max_length=MAX_ARMS)]
    spec: Object = {}
    measures: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=20)]
    smallest_effect_percent: Annotated[float, Field(ge=0, le=1000)] = 5
    prediction: Object = {}
    quality: Object = {}
    factor: Annotated[Line, Field(max_length=60)] = ""
    repeats: Repeats = 3
    order: Study.Order = Study.Order.ABBA
    seed: Annotated[int, Field(ge=0, le=2_147_483_647)] = 0
    look_for: Text = ""
    limits: Text = ""


class ReadyIn(Input):
    template: Annotated[Line, Field(max_length=60, description="Such as prefix-caching; GET /studies/ready lists them")]
    name: Name
    short: bool = False
    repeats: Repeats | None = None
    quality: Annotated[bool | None, Field(description="Put questions to the arms; null: where it may matter")] = None


class ArmOut(Schema):
    name: str
    deployment_id: int
    benchmark_id: int
    spec: Any
    theory: Any
    x: float | None


class StudyOut(Schema):
    id: int
    name: str
    question: str
    template: str
    spec: Any
    measures: Any
    smallest_effect_percent: float
    prediction: Any
    quality: Any
    factor: str
    repeats: int
    order: str
    seed: int
    look_for: str
    limits: str
    created_at: datetime
    arms: list[ArmOut]

    @staticmethod
    def resolve_arms(item: Study) -> list[Arm]:
        return list(item.arms.all())


class ReadyOut(Schema):
    template: Annotated[str, Field(alias="slug")]
    number: int
    title: str
    question: str
    look_for: str
    limits: str


class TrialOut(Schema):
    """``result`` is null until the trial has ended; GET /trials/{key} gives it as it stands."""

    id: int
    study_id: int
    status: str
    trigger: str
    started_at: datetime
    ended_at: datetime | None
    result: Any


class TurnOut(Schema):
    """``unused``: why its run gives nothing that can be used; empty when it does."""

    repeat: int
    arm: str
    run_id: int | None
    unused: str


class TrialDetailOut(TrialOut):
    turns: list[TurnOut]


def _studies() -> Any:
    return Study.objects.prefetch_related("arms")


@router.get("", summary="All studies", response={200: Listed[StudyOut], **ERRORS})
def studies(request: Request, page: Query[Page]) -> Any:
    """Newest first."""
    return page_of(_studies(), page)


@router.post("", summary="Make a study", response={201: StudyOut, **ERRORS, **CONFLICT, **BAD_BODY})
def create_study(request: Request, payload: StudyIn) -> Any:
    """It stays as it is made. POST /studies/{key}/trials carries it out."""
    values = payload.model_dump()
    arms = values.pop("arms")
    plans = [
        ArmPlan(arm["name"], _deployment(arm["deployment_id"]), arm["spec"], arm["theory"], arm["x"]) for arm in arms
    ]
    study = Study(created_by=request.auth, **values)
    try:
        return Status(201, design.create(study, plans))
    except DesignError as error:
        raise refused([Fault(field=error.field, problem=str(error))]) from None


def _deployment(key: int) -> Deployment:
    found = Deployment.objects.select_related("endpoint", "site").filter(pk=key).first()
    if found is None:
        raise refused([Fault(field="arms.deployment_id", problem=f"There is no deployment {key}.")])
    return found


@router.get("/ready", summary="Ready-made studies", response={200: list[ReadyOut], **ERRORS})
def ready(request: Request) -> Any:
    return list(ready_made.READY_MADE)


@router.post("/ready", summary="Make a ready-made study", response={201: StudyOut, **ERRORS, **BAD_BODY})
def create_ready(request: Request, payload: ReadyIn) -> Any:
    """Its engines are started by the workers, each for its runs."""
    found = ready_made.BY_SLUG.get(payload.template)
    if found is None:
        raise refused([Fault(field="template", problem=f"Known are {', '.join(ready_made.BY_SLUG)}.")])
    asking = found.asking(payload.quality)
    chosen = asking.shortened() if payload.short else asking
    try:
        return Status(201, ready_made.make(chosen, payload.name, request.auth, repeats=payload.repeats))
    except DesignError as error:
        raise refused([Fault(field=error.field, problem=str(error))]) from None


@router.get("/{key}", summary="One study", response={200: StudyOut, **ERRORS, **NOT_FOUND})
def study(request: Request, key: PathKey) -> Any:
    return get(_studies(), key)


@router.get("/{key}/trials", summary="Trials of a study", response={200: Listed[TrialOut], **ERRORS, **NOT_FOUND})
def trials_of(request: Request, key: PathKey, page: Query[Page]) -> Any:
    """Newest first."""
    return page_of(get(_studies(), key).trials.all(), page)


@router.post("/{key}/trials", summary="Carry a study out", response={201: TrialOut, **ERRORS, **NOT_FOUND, **CONFLICT})
def start_trial(request: Request, key: PathKey) -> Any:
    """Its runs are queued one after the other."""
    try:
        return Status(201, trials.start(get(_studies(), key), Run.Trigger.API, request.auth))
    except trials.Busy as error:
        raise Problem(409, "running", str(error), f"POST /trials/{error.trial.pk}/cancel cancels it.") from None


@trials_router.get("/{key}", summary="One trial, as it stands", response={200: TrialDetailOut, **ERRORS, **NOT_FOUND})
def trial(request: Request, key: PathKey) -> Any:
    """Also while it runs: the result is what its runs say so far."""
    found = get(Trial.objects.select_related("study"), key)
    result = verdict.of(found)
    turns = [
        {"repeat": turn.slot.repeat, "arm": turn.slot.arm.name, "run_id": turn.slot.run_id, "unused": turn.reason}
        for turn in result.turns
    ]
    told = TrialOut.from_orm(found).model_dump()
    return {**told, "result": verdict.to_json(result), "turns": turns}


@trials_router.post(
    "/{key}/cancel", summary="Cancel a trial", response={200: TrialOut, **ERRORS, **NOT_FOUND, **CONFLICT}
)
def cancel_trial(request: Request, key: PathKey) -> Any:
    """Its run is cancelled, no other is queued; what was measured is kept."""
    found = get(Trial.objects.all(), key)
    if not trials.cancel(found):
        raise Problem(409, "ended", f"Trial {key} has ended already.", "Nothing needs to be done; read its result.")
    found.refresh_from_db()
    return found
