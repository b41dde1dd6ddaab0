"""Schedules: list, page, form with its next times, on and off."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from observatory.benchmarks.models import Benchmark
from observatory.pages.access import Request
from observatory.pages.listing import arrange
from observatory.pages.schedule_form import ScheduleForm, coming, time_zones, words
from observatory.pages.tables import OccurrenceTable, ScheduleTable
from observatory.pages.twins import answer, facts
from observatory.schedules.due import CronError, arm, validate_cron
from observatory.schedules.models import Schedule
from observatory.studies.models import Study

#: For programs: a schedule, and one of its past times.
COLUMNS = {
    "id": "pk",
    "benchmark": "benchmark.name",
    "study": "study.name",
    "cron": "cron",
    "time_zone": "time_zone",
    "enabled": "enabled",
    "next_due_at": "next_due_at",
}
PAST = {"due_at": "due_at", "outcome": "outcome", "reason": "reason", "run": "run_id", "trial": "trial_id"}


@login_required
def schedules(request: Request, form: str = "html") -> HttpResponseBase:
    """All schedules."""
    found = Schedule.objects.select_related("benchmark", "study")
    table = arrange(ScheduleTable(found), request)
    return answer(
        request,
        form,
        "schedules/schedules.html",
        {"table": table},
        rows=lambda: (facts(item, COLUMNS) for item in found),
        columns=COLUMNS,
    )


@login_required
def schedule(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """One schedule: its next times and what came of the past ones."""
    found = get_object_or_404(Schedule.objects.select_related("benchmark", "study"), pk=pk)
    past = found.occurrences.select_related("run", "trial")
    context = {
        "schedule": found,
        **_times(found.cron, found.time_zone),
        "form": ScheduleForm(instance=found),
        "time_zones": time_zones(),
        "occurrences": arrange(OccurrenceTable(past), request),
    }
    return answer(
        request,
        form,
        "schedules/schedule.html",
        context,
        rows=lambda: (facts(item, PAST) for item in past),
        columns=PAST,
        data=lambda: {**facts(found, COLUMNS), "occurrences": [facts(item, PAST) for item in past]},
    )


@login_required
def edit(
    request: Request, pk: int | None = None, benchmark: int | None = None, study: int | None = None
) -> HttpResponse:
    """The form of a new schedule of a benchmark or a study, or of a known one."""
    if pk:
        found = get_object_or_404(Schedule.objects.select_related("benchmark", "study"), pk=pk)
    elif study:
        found = Schedule(study=get_object_or_404(Study, pk=study), created_by=request.user)
    else:
        found = Schedule(benchmark=get_object_or_404(Benchmark, pk=benchmark), created_by=request.user)
    form = ScheduleForm(request.POST or None, instance=found)
    if request.method == "POST" and form.is_valid():
        arm(form.save(commit=False))
        messages.success(request, "The schedule is set." if found.enabled else "Saved; the schedule is off.")
        return redirect(found)
    context = {
        "form": form,
        "subject": found.subject,
        "schedule": found if pk else None,
        "time_zones": time_zones(),
    }
    return render(request, "schedules/form.html", context)


@login_required
def preview(request: Request) -> HttpResponse:
    """The next times of the cron line in the query string, or what is wrong with it."""
    times = _times(request.GET.get("cron", ""), request.GET.get("time_zone", ""))
    return render(request, "schedules/times.html", times)


def _times(cron: str, time_zone: str) -> dict[str, object]:
    if not cron:
        return {}
    try:
        validate_cron(cron, time_zone)
        return {"words": words(cron), "coming": coming(cron, time_zone), "time_zone": time_zone}
    except CronError as error:
        return {"trouble": str(error)}


@login_required
@require_POST
def toggle(request: Request, pk: int) -> HttpResponse:
    """On becomes off and off becomes on; times that passed meanwhile are not caught up."""
    found = get_object_or_404(Schedule, pk=pk)
    found.enabled = not found.enabled
    try:
        arm(found)
    except CronError as error:
        messages.error(request, f"Not switched on: {error}")
    return redirect(found)


@login_required
@require_POST
def delete(request: Request, pk: int) -> HttpResponse:
    """Removes the schedule and its list of past times; what it started stays."""
    found = get_object_or_404(Schedule.objects.select_related("benchmark", "study"), pk=pk)
    subject = found.subject
    found.delete()
    messages.success(request, "The schedule is deleted. What it started is kept.")
    return redirect(subject)
