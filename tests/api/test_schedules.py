from datetime import UTC, datetime
from typing import Any

import pytest

from observatory.schedules.models import Occurrence, Schedule
from tests.api.conftest import Caller
from tests.factories import benchmark

pytestmark = pytest.mark.django_db


def test_a_schedule_is_made_with_its_next_due_time_changed_and_deleted(as_user: Caller) -> None:
    made = as_user.post("/schedules", {"benchmark_id": benchmark().pk, "cron": "30 3 * * *", "time_zone": "Asia/Tokyo"})
    assert made.status_code == 201
    due = datetime.fromisoformat(made.json()["next_due_at"])
    assert (due.astimezone(UTC).hour, due.minute, due > datetime.now(UTC)) == (18, 30, True)
    key = made.json()["id"]
    assert as_user.patch(f"/schedules/{key}", {"enabled": False}).json()["next_due_at"] is None
    assert as_user.delete(f"/schedules/{key}").status_code == 204
    assert not Schedule.objects.exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cron": "every night"}, "five fields"),
        ({"cron": "61 3 * * *"}, "minute"),
        ({"cron": "0 0 31 2 *"}, "day-of-month"),
        ({"time_zone": "Mars/Olympus"}, "not a time zone"),
        ({"time_zone": "../../etc/passwd"}, "not a time zone"),
        ({"benchmark_id": 999}, "not a valid choice"),
    ],
)
def test_a_schedule_that_never_works_is_refused_with_the_fix(
    as_user: Caller, change: dict[str, Any], words: str
) -> None:
    answer = as_user.post("/schedules", {"benchmark_id": benchmark().pk, "cron": "0 3 * * *", **change})
    assert answer.status_code == 422
    assert words in answer.json()["fields"][0]["problem"]
    assert not Schedule.objects.exists()


def test_what_came_of_each_due_time_is_listed(as_user: Caller) -> None:
    schedule = Schedule.objects.create(benchmark=benchmark(), cron="0 3 * * *")
    Occurrence.objects.create(
        schedule=schedule, due_at=datetime(2026, 11, 1, 3, tzinfo=UTC), outcome="missed", reason="was off"
    )
    listed = as_user.get(f"/schedules/{schedule.pk}/occurrences").json()
    assert listed["count"] == 1
    assert (listed["items"][0]["outcome"], listed["items"][0]["run_id"]) == ("missed", None)
