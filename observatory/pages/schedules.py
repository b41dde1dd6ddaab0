"""Schedules: list and page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from observatory.pages.access import Request
from observatory.pages.twins import answer
from observatory.schedules.models import Schedule


@login_required
def schedules(request: Request, form: str = "html") -> HttpResponse:
    """All schedules, by name."""
    found = Schedule.objects.all()
    return answer(
        request,
        form,
        "schedules/schedules.html",
        {"schedules": found},
        rows=lambda: [{"id": schedule.pk} for schedule in found],
    )


@login_required
def schedule(request: Request, pk: int, form: str = "html") -> HttpResponse:
    """One schedule."""
    found = get_object_or_404(Schedule, pk=pk)
    return answer(request, form, "schedules/schedule.html", {"schedule": found}, rows=lambda: [{"id": found.pk}])
