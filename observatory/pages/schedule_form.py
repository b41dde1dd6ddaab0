"""The form of a schedule, and its times in words."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim
from django import forms
from django.utils import timezone

from observatory.schedules.due import CronError, next_due, validate_cron
from observatory.schedules.models import Schedule

SHOWN_TIMES = 3


class ScheduleForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Schedule
        fields = ("cron", "time_zone", "enabled")
        labels = {"cron": "Cron line"}
        help_texts = {
            "cron": "Minute, hour, day of month, month, day of week. 0 3 * * 1-5 is at 03:00 on working days."
        }
        widgets = {
            "cron": forms.TextInput(attrs={"class": "mono", "placeholder": "0 3 * * *", "autocomplete": "off"}),
            "time_zone": forms.TextInput(attrs={"list": "time-zones"}),
        }

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if "cron" in cleaned and "time_zone" in cleaned:
            try:
                validate_cron(cleaned["cron"], cleaned["time_zone"])
            except CronError as error:
                self.add_error("cron", str(error))
        return cleaned


def time_zones() -> list[str]:
    """Names to choose from."""
    return sorted(available_timezones())


def words(cron: str) -> str:
    """The cron line as an English phrase, such as "At 03:00 on Monday through Friday"."""
    return CronSim(cron, timezone.now()).explain()


def coming(cron: str, time_zone: str, count: int = SHOWN_TIMES) -> list[datetime]:
    """The next due times, in the schedule's own zone. Raises CronError."""
    times: list[datetime] = []
    after = timezone.now()
    for _ in range(count):
        after = next_due(cron, time_zone, after)
        times.append(after.astimezone(ZoneInfo(time_zone)))
    return times
