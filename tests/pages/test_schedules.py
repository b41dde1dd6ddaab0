from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.test import Client

from observatory.schedules.models import Schedule
from tests import factories

NOW = datetime(2026, 11, 12, 12, 0, tzinfo=UTC)


@pytest.fixture
def schedule(user_client: Client) -> Schedule:
    """Made at NOW."""
    benchmark = factories.benchmark()
    sent = {"cron": "0 3 * * 1-5", "time_zone": "Europe/Berlin", "enabled": "on"}
    with time_machine.travel(NOW, tick=False):
        answer = user_client.post(f"/benchmarks/{benchmark.pk}/schedules/new", sent)
    made = Schedule.objects.get()
    assert answer.url == f"/schedules/{made.pk}"
    return made


def test_a_schedule_is_armed_in_its_own_time_zone(schedule: Schedule) -> None:
    assert schedule.next_due_at == datetime(2026, 11, 13, 2, 0, tzinfo=UTC)
    assert schedule.created_by.username == "ada"


@time_machine.travel(NOW, tick=False)
def test_the_next_three_times_are_shown_in_words(user_client: Client) -> None:
    page = user_client.get("/schedules/preview?cron=0+3+*+*+1-5&time_zone=Europe/Berlin").content.decode()
    assert "At 03:00 on Monday through Friday, Europe/Berlin time" in page
    for day in ("Friday 13 Nov 2026, 03:00 CET", "Monday 16 Nov 2026", "Tuesday 17 Nov 2026"):
        assert day in page


@pytest.mark.parametrize(
    ("cron", "zone", "fix"),
    [
        ("61 * * * *", "UTC", "Bad minute"),
        ("0 3 * *", "UTC", "five fields"),
        ("0 3 30 2 *", "UTC", "Bad day-of-month"),
        ("0 3 * * *", "Mars/Olympus", "is not a time zone"),
    ],
)
def test_a_wrong_line_says_what_to_change(user_client: Client, cron: str, zone: str, fix: str) -> None:
    benchmark = factories.benchmark()
    sent = {"cron": cron, "time_zone": zone}
    assert fix in user_client.get("/schedules/preview", sent).content.decode()
    assert fix in user_client.post(f"/benchmarks/{benchmark.pk}/schedules/new", sent).content.decode()
    assert not Schedule.objects.exists()


def test_off_starts_nothing_and_on_looks_ahead(user_client: Client, schedule: Schedule) -> None:
    user_client.post(f"/schedules/{schedule.pk}/toggle")
    schedule.refresh_from_db()
    assert (schedule.enabled, schedule.next_due_at) == (False, None)
    assert "off: nothing starts" in user_client.get(f"/schedules/{schedule.pk}").content.decode()
    user_client.post(f"/schedules/{schedule.pk}/toggle")
    schedule.refresh_from_db()
    assert schedule.enabled
    assert schedule.next_due_at > datetime.now(UTC)


def test_a_deleted_schedule_leaves_its_runs(user_client: Client, schedule: Schedule) -> None:
    run = factories.finished_run(schedule.benchmark)
    schedule.occurrences.create(due_at=NOW, outcome="started", run=run)
    assert f'href="/runs/{run.pk}"' in user_client.get(f"/schedules/{schedule.pk}").content.decode()
    assert user_client.post(f"/schedules/{schedule.pk}/delete").url == schedule.benchmark.get_absolute_url()
    assert not Schedule.objects.exists()
    run.refresh_from_db()


def test_past_times_have_their_reasons(user_client: Client, schedule: Schedule) -> None:
    schedule.occurrences.create(due_at=NOW, outcome="skipped", reason="Run 3 of this schedule was still running.")
    schedule.occurrences.create(due_at=NOW - timedelta(hours=1), outcome="missed", reason="Nobody looked; caught up.")
    page = user_client.get(f"/schedules/{schedule.pk}").content.decode()
    assert "was still running" in page
    assert "Nobody looked; caught up." in page
    assert "missed" in page
    listed = user_client.get(f"/schedules/{schedule.pk}.json").json()["occurrences"]
    assert [item["outcome"] for item in listed] == ["skipped", "missed"]
