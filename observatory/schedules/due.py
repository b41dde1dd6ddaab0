"""When schedules are due. The cron line is read in its time zone; the next due time is kept in UTC and decides."""

import logging
from datetime import UTC, datetime
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from django.db import transaction
from django.utils import timezone

from observatory.runs import dispatch, states
from observatory.runs.models import Run
from observatory.schedules.models import Occurrence, Schedule
from observatory.studies import trials
from observatory.studies.models import Study, Trial
from runners.spec import SpecError

#: After a long pause so many missed times are listed one by one; the oldest of them tells of those before it.
MISSED_LISTED = 50

logger = logging.getLogger(__name__)


class CronError(ValueError):
    """The cron line or its time zone cannot be read; the message says what to change."""


def validate_cron(cron: str, time_zone: str) -> None:
    """Raises CronError that says what is wrong with the line or the zone."""
    try:
        ZoneInfo(time_zone)
    except (KeyError, ValueError, OSError):
        raise CronError(f"{time_zone!r} is not a time zone. Give a name such as Europe/Berlin, or UTC.") from None
    if len(cron.split()) != 5:
        raise CronError("A cron line has five fields: minute, hour, day of month, month, day of week; 30 3 * * 1-5")
    try:
        next(CronSim(cron, timezone.now()))
    except CronSimError as error:
        raise CronError(f"{error}: {cron!r}. Fields: minute, hour, day of month, month, day of week.") from None
    except StopIteration:
        raise CronError(f"{cron!r} never comes due: no month has such a day.") from None


def next_due(cron: str, time_zone: str, after: datetime) -> datetime:
    """The first due time after ``after``, in UTC. Raises CronError.

    As in Debian's cron: a time that a clock change leaves out is due right after the gap, one that it repeats is due
    once, and lines with a * in minute or hour follow real time.
    """
    validate_cron(cron, time_zone)
    for local in CronSim(cron, after.astimezone(ZoneInfo(time_zone))):
        due = local.astimezone(UTC)
        if due > after:  # in a repeated hour cronsim may begin with its first pass
            return due
    raise CronError(f"{cron!r} never comes due again.")


def arm(schedule: Schedule) -> None:
    """Saves a new or edited schedule with its next due time. Raises CronError."""
    schedule.next_due_at = next_due(schedule.cron, schedule.time_zone, timezone.now()) if schedule.enabled else None
    schedule.save()


def start_due(now: datetime | None = None) -> list[Run | Trial]:
    """Starts what has come due, each schedule once however many callers ask; gives what this call started."""
    now = now or timezone.now()
    started: list[Run | Trial] = []
    for schedule in Schedule.objects.filter(enabled=True, next_due_at__lte=now):
        try:
            begun = _start(schedule, now)
        except CronError as error:  # a row that was not saved through ``arm``
            logger.error("schedule %s is left out: %s", schedule.pk, error)
            continue
        if isinstance(begun, Run):
            dispatch.publish(begun)
        elif begun:
            trials.advance(begun.pk)
        started += [begun] if begun else []
    return started


def _start(schedule: Schedule, now: datetime) -> Run | Trial | None:
    """Takes the due times up to ``now``: the latest starts something, those before it are listed as missed."""
    due_at = schedule.next_due_at
    assert due_at is not None  # noqa: S101
    with transaction.atomic():
        following = next_due(schedule.cron, schedule.time_zone, now)
        won = Schedule.objects.filter(pk=schedule.pk, next_due_at=due_at).update(next_due_at=following)
        if not won:
            return None
        *missed, latest = _times(schedule, due_at, now)
        _list_missed(schedule, missed)
        return _occur(schedule, latest)


def _times(schedule: Schedule, first: datetime, now: datetime) -> list[datetime]:
    local = first.astimezone(ZoneInfo(schedule.time_zone))
    later = (time.astimezone(UTC) for time in CronSim(schedule.cron, local))
    return sorted({first, *(time for time in takewhile(lambda time: time <= now, later) if time > first)})


def _list_missed(schedule: Schedule, missed: list[datetime]) -> None:
    unlisted = len(missed) - MISSED_LISTED
    reason = "Nothing looked at the schedules at that time. Only the latest due time is caught up."
    for number, due_at in enumerate(missed[-MISSED_LISTED:]):
        before = f" So it was {unlisted} times before." if number == 0 and unlisted > 0 else ""
        Occurrence.objects.get_or_create(
            schedule=schedule,
            due_at=due_at,
            defaults={"outcome": Occurrence.Outcome.MISSED, "reason": reason + before},
        )


def _occur(schedule: Schedule, due_at: datetime) -> Run | Trial | None:
    """What one due time starts; None when the last of it has not ended, or it cannot be specified any more."""
    return _trial(schedule, schedule.study, due_at) if schedule.study else _run(schedule, due_at)


def _trial(schedule: Schedule, study: Study, due_at: datetime) -> Trial | None:
    running = study.trials.filter(status=Trial.Status.RUNNING).first()
    if running:
        _skip(schedule, due_at, f"{running} of this study was still running.")
        return None
    trial = trials.create(study, Run.Trigger.SCHEDULE, schedule.created_by)
    Occurrence.objects.create(schedule=schedule, due_at=due_at, outcome=Occurrence.Outcome.STARTED, trial=trial)
    return trial


def _run(schedule: Schedule, due_at: datetime) -> Run | None:
    last = Run.objects.filter(occurrence__schedule=schedule, status__in=(Run.Status.QUEUED, Run.Status.RUNNING)).first()
    if last:
        _skip(schedule, due_at, f"Run {last.pk} of this schedule was still {last.status}.")
        return None
    try:
        assert schedule.benchmark is not None  # noqa: S101
        run = states.queue(schedule.benchmark, Run.Trigger.SCHEDULE, schedule.created_by)
    except SpecError as error:
        _skip(schedule, due_at, f"The benchmark cannot be run: {error}")
        return None
    Occurrence.objects.create(schedule=schedule, due_at=due_at, outcome=Occurrence.Outcome.STARTED, run=run)
    return run


def _skip(schedule: Schedule, due_at: datetime, reason: str) -> None:
    Occurrence.objects.create(schedule=schedule, due_at=due_at, outcome=Occurrence.Outcome.SKIPPED, reason=reason[:200])
