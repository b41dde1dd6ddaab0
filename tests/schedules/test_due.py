from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Barrier, Thread
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.utils import timezone

from observatory.benchmarks.models import Benchmark
from observatory.runs.models import Run
from observatory.schedules import due
from observatory.schedules.models import Occurrence, Schedule
from tests import factories
from tests.services.fixtures import both_databases
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(cron: str, zone: str, after: str, count: int) -> list[str]:
    moment, found = utc(after), []
    for _ in range(count):
        moment = due.next_due(cron, zone, moment)
        found.append(f"{moment:%m-%d %H:%M}")
    return found


@pytest.mark.parametrize(
    ("cron", "zone", "after", "expected"),
    [
        # Spring: 02:30 does not exist on that day, so it is due when the clock has jumped.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28T00:00", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),
        ("30 2 * * *", "America/New_York", "2026-03-07T06:00", ["03-07 07:30", "03-08 07:00", "03-09 06:30"]),
        ("0 0 * * *", "Africa/Cairo", "2026-04-23T00:00", ["04-23 22:00", "04-24 21:00"]),
        # Autumn: 01:30 comes twice and is due once.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24T00:00", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),
        ("30 1 * * *", "America/New_York", "2026-10-31T06:00", ["11-01 05:30", "11-02 06:30"]),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04T00:00", ["04-04 14:45", "04-05 15:15"]),
        # Half-hourly lines follow real time, through the gap and through the repeated hour.
        ("*/30 * * * *", "Europe/Berlin", "2026-10-25T00:00", ["10-25 00:30", "10-25 01:00", "10-25 01:30"]),
        ("*/30 * * * *", "Europe/Berlin", "2026-03-29T00:30", ["03-29 01:00", "03-29 01:30", "03-29 02:00"]),
        ("0 9 * * 1-5", "Asia/Kolkata", "2026-05-01T00:00", ["05-01 03:30", "05-04 03:30"]),
    ],
)
def test_due_times_stand_still_on_the_wall_clock(cron: str, zone: str, after: str, expected: list[str]) -> None:
    assert times(cron, zone, after, len(expected)) == expected


def test_within_the_repeated_hour_the_next_due_time_is_never_in_the_past() -> None:
    second_pass = utc("2026-11-01T06:10")  # 01:10 for the second time in New York; 01:30 was due at 05:30
    assert due.next_due("30 1 * * *", "America/New_York", second_pass) == utc("2026-11-02T06:30")


@pytest.mark.parametrize(
    ("cron", "zone", "words"),
    [
        ("30 3 * *", "UTC", "five fields"),
        ("0 30 3 * * *", "UTC", "five fields"),
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 0 31 2 *", "UTC", "Bad day-of-month|never comes due"),
        ("0 0 * * mon-", "UTC", "Bad day-of-week"),
        ("", "UTC", "five fields"),
        ("0 0 * * *", "Europe/Atlantis", "not a time zone"),
        ("0 0 * * *", "../../etc/passwd", "not a time zone"),
        ("0 0 * * *", "", "not a time zone"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused_with_what_is_wrong(cron: str, zone: str, words: str) -> None:
    with pytest.raises(due.CronError, match=words):
        due.validate_cron(cron, zone)


@pytest.fixture
def schedule(database_url: str, benchmark: Make) -> Callable[..., Schedule]:
    def make(cron: str = "*/10 * * * *", at: str = "2026-06-01T12:00", name: str = "b", **options: Any) -> Schedule:
        asked = benchmark(name=name)
        schedule = Schedule(benchmark=asked, cron=cron, created_by=asked.created_by, **options)
        with time_machine.travel(utc(at), tick=False):
            due.arm(schedule)
        return schedule

    return make


def outcomes(schedule: Schedule) -> list[tuple[str, str]]:
    return [(f"{o.due_at:%H:%M}", o.outcome) for o in schedule.occurrences.order_by("due_at")]


def test_a_new_schedule_knows_its_next_due_time(schedule: Callable[..., Schedule]) -> None:
    assert schedule("30 3 * * *", time_zone="Europe/Berlin").next_due_at == utc("2026-06-02T01:30")
    assert schedule(name="off", enabled=False).next_due_at is None


def test_a_due_schedule_starts_one_run_and_looks_ahead(schedule: Callable[..., Schedule]) -> None:
    made = schedule()
    assert due.start_due(utc("2026-06-01T12:09")) == []
    (run,) = due.start_due(utc("2026-06-01T12:10"))
    assert due.start_due(utc("2026-06-01T12:10:15")) == []
    made.refresh_from_db()
    assert (run.trigger, run.status, run.started_by) == ("schedule", "queued", made.created_by)
    assert made.next_due_at == utc("2026-06-01T12:20")
    assert outcomes(made) == [("12:10", "started")]
    assert made.occurrences.get().run == run


def test_after_three_hours_off_the_latest_due_time_is_caught_up_and_the_others_are_shown(
    schedule: Callable[..., Schedule],
) -> None:
    made = schedule()
    assert len(due.start_due(utc("2026-06-01T15:04"))) == 1
    listed = outcomes(made)
    assert listed[-1] == ("15:00", "started")
    assert [outcome for _, outcome in listed[:-1]] == ["missed"] * 17
    assert listed[0][0] == "12:10"
    assert "caught up" in made.occurrences.filter(outcome="missed")[0].reason
    made.refresh_from_db()
    assert made.next_due_at == utc("2026-06-01T15:10")


def test_after_a_month_off_the_list_of_missed_times_stays_short_and_says_so(
    schedule: Callable[..., Schedule],
) -> None:
    made = schedule()
    due.start_due(utc("2026-07-01T12:00"))
    missed = made.occurrences.filter(outcome=Occurrence.Outcome.MISSED).order_by("due_at")
    assert missed.count() == due.MISSED_LISTED
    assert str(30 * 24 * 6 - 1 - due.MISSED_LISTED) in missed[0].reason


def test_a_run_that_has_not_ended_skips_the_next_due_time_with_the_reason(schedule: Callable[..., Schedule]) -> None:
    made = schedule()
    (run,) = due.start_due(utc("2026-06-01T12:10"))
    assert due.start_due(utc("2026-06-01T12:20")) == []
    assert made.occurrences.get(outcome="skipped").reason == f"Run {run.pk} of this schedule was still queued."
    Run.objects.update(status="finished")
    assert len(due.start_due(utc("2026-06-01T12:30"))) == 1


def test_a_benchmark_that_cannot_be_run_any_more_is_skipped_with_its_error(schedule: Callable[..., Schedule]) -> None:
    made = schedule()
    Benchmark.objects.update(load={"levels": []})
    assert due.start_due(utc("2026-06-01T12:10")) == []
    assert "load.levels" in made.occurrences.get(outcome="skipped").reason


def test_a_disabled_schedule_starts_nothing(schedule: Callable[..., Schedule]) -> None:
    made = schedule()
    made.enabled = False
    due.arm(made)
    assert due.start_due(utc("2026-06-01T13:00")) == []


def test_an_edit_takes_effect_from_now(schedule: Callable[..., Schedule]) -> None:
    made = schedule()
    made.cron = "0 0 * * *"
    with time_machine.travel(utc("2026-06-01T12:05"), tick=False):
        due.arm(made)
    assert made.next_due_at == utc("2026-06-02T00:00")


@both_databases
def test_three_schedulers_that_look_at_once_start_one_run(schedule: Callable[..., Schedule]) -> None:
    made = schedule()
    start, started = Barrier(3), []

    def look() -> None:
        start.wait(10)
        started.extend(due.start_due(utc("2026-06-01T13:00")))
        connection.close()

    threads = [Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(started), Run.objects.count()) == (1, 1)
    assert made.occurrences.filter(outcome="started").count() == 1


def test_one_schedule_that_fails_does_not_hold_up_the_others(schedule: Callable[..., Schedule]) -> None:
    broken = schedule()
    Schedule.objects.filter(pk=broken.pk).update(cron="what?")
    whole = schedule(name="whole")
    assert [run.benchmark for run in due.start_due(utc("2026-06-01T12:10"))] == [whole.benchmark]


@both_databases
def test_beats_and_workers_carry_a_schedule_to_a_finished_run(site: Site, benchmark: Make) -> None:
    for queue in ("bench", "control"):
        site.worker(queue, ready=False)
    for name in ("beat-a", "beat-b", "beat-c"):
        site.beat(name)
    asked = benchmark(requests=5)
    schedule = Schedule(benchmark=asked, cron="0 0 1 1 *", created_by=asked.created_by)
    due.arm(schedule)
    Schedule.objects.update(next_due_at=timezone.now() + timedelta(seconds=1))
    run = wait_for(lambda: Run.objects.filter(status="finished").first(), 40)
    assert run.trigger == "schedule"
    assert (Run.objects.count(), len(site.sent())) == (1, 5)
    assert schedule.occurrences.get().run == run


def test_a_due_study_is_carried_out_once_and_skipped_while_it_runs(db: None) -> None:
    study = factories.study()
    noon = utc("2026-06-01T12:00")
    schedule = Schedule.objects.create(study=study, cron="* * * * *", next_due_at=noon)
    assert due.start_due(noon) == [study.trials.get()]
    assert Run.objects.get().trigger == "study"
    assert due.start_due(noon + timedelta(seconds=70)) == []
    latest, first = schedule.occurrences.all()
    assert (first.outcome, first.trial) == ("started", study.trials.get())
    assert (latest.outcome, latest.trial) == ("skipped", None)
    assert "still running" in latest.reason
