from datetime import datetime
from typing import Annotated, Any

from ninja import Field, PatchDict, Query, Router, Schema, Status

from observatory.api.auth import Request
from observatory.api.errors import Fault, refused
from observatory.api.records import get, remove, store
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
from observatory.schedules import due
from observatory.schedules.models import Schedule

router = Router(tags=["schedules"])


class ScheduleIn(Input):
    """Of a benchmark or of a study: one of the two."""

    benchmark_id: Key | None = None
    study_id: Key | None = None
    cron: Annotated[Line, Field(min_length=1, max_length=100, description="Five fields, such as 30 3 * * 1-5")]
    time_zone: Annotated[Line, Field(min_length=1, max_length=60, description="Such as Europe/Berlin")] = "UTC"
    enabled: bool = True


class OccurrenceOut(Schema):
    due_at: datetime
    outcome: str
    reason: str
    run_id: int | None
    trial_id: int | None


class ScheduleOut(Schema):
    id: int
    benchmark_id: int | None
    study_id: int | None
    cron: str
    time_zone: str
    enabled: bool
    next_due_at: datetime | None
    created_at: datetime


@router.get("", summary="All schedules", response={200: Listed[ScheduleOut], **ERRORS})
def schedules(request: Request, page: Query[Page]) -> Any:
    return page_of(Schedule.objects.all(), page)


@router.post("", summary="Make a schedule", response={201: ScheduleOut, **ERRORS, **CONFLICT, **BAD_BODY})
def create_schedule(request: Request, payload: ScheduleIn) -> Any:
    return Status(201, store(Schedule(created_by=request.auth), payload.model_dump(), _save))


@router.get("/{key}", summary="One schedule", response={200: ScheduleOut, **ERRORS, **NOT_FOUND})
def schedule(request: Request, key: PathKey) -> Any:
    return get(Schedule.objects.all(), key)


@router.patch(
    "/{key}", summary="Change a schedule", response={200: ScheduleOut, **ERRORS, **NOT_FOUND, **CONFLICT, **BAD_BODY}
)
def change_schedule(request: Request, key: PathKey, payload: PatchDict[ScheduleIn]) -> Any:
    """What is left out stays."""
    return store(get(Schedule.objects.all(), key), payload, _save)


@router.delete("/{key}", summary="Delete a schedule", response={204: None, **ERRORS, **NOT_FOUND, **CONFLICT})
def delete_schedule(request: Request, key: PathKey) -> Any:
    """What it started stays."""
    remove(get(Schedule.objects.all(), key))
    return Status(204, None)


@router.get(
    "/{key}/occurrences",
    summary="Due times of a schedule and what came of them",
    response={200: Listed[OccurrenceOut], **ERRORS, **NOT_FOUND},
)
def occurrences(request: Request, key: PathKey, page: Query[Page]) -> Any:
    """Due times and what came of them, newest first."""
    return page_of(get(Schedule.objects.all(), key).occurrences.all(), page)


def _save(item: Schedule) -> None:
    try:
        due.arm(item)
    except due.CronError as error:
        raise refused([Fault(field="cron", problem=str(error))]) from None
