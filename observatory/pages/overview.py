"""The overview: what runs now, what comes next, what came out last, who is there to work."""

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone

from observatory.catalog.models import Deployment
from observatory.pages.access import Request
from observatory.pages.run_columns import DEFAULT
from observatory.pages.run_lists import latest, row, shown
from observatory.pages.runs import ACTIVE
from observatory.pages.twins import answer
from observatory.pages.workers import late_schedules, workers
from observatory.runs.models import Run
from observatory.schedules.models import Schedule


@dataclass(frozen=True)
class Step:
    """Something worth doing next, and where."""

    text: str
    url: str
    label: str


@login_required
def overview(request: Request, form: str = "html") -> HttpResponseBase:
    """The first page; without any run it leads to the first-run guide."""
    if form == "html" and not Run.objects.exists():
        return redirect("welcome")
    ended = Run.objects.exclude(status__in=ACTIVE)
    context = {
        **_now(),
        "upcoming": _upcoming(),
        "runs": latest(ended),
        "steps": _steps(),
    }
    return answer(
        request,
        form,
        "pages/overview.html",
        context,
        rows=lambda: (row(run, DEFAULT) for run in shown(Run.objects.all(), DEFAULT)[:50]),
    )


@login_required
def live(request: Request) -> HttpResponse:
    """What runs now, as a part of the overview."""
    return render(request, "pages/live.html", _now())


@login_required
def staffing(request: Request) -> HttpResponse:
    """Broker and workers, as a part of the overview: asking them takes a second."""
    waiting = Run.objects.filter(status=Run.Status.QUEUED).count()
    context = {"workers": workers(), "waiting": waiting, "late": late_schedules()}
    return render(request, "pages/workers.html", context)


def _now() -> dict[str, Any]:
    found = Run.objects.filter(status__in=ACTIVE).select_related("benchmark", "deployment")
    active = sorted(found, key=lambda run: (run.status == Run.Status.QUEUED, run.pk))
    return {"active": active, "now": timezone.now()}


def _upcoming() -> list[Schedule]:
    due = Schedule.objects.filter(enabled=True, next_due_at__isnull=False)
    return list(due.select_related("benchmark__deployment", "study").order_by("next_due_at")[:5])


def _steps() -> list[Step]:
    steps = []
    unpriced = Deployment.objects.filter(usd_per_hour=None).first()
    if unpriced:
        steps.append(
            Step(
                f"{unpriced.name} has no price, so that its cost per million tokens is missing.",
                reverse("deployment", args=[unpriced.pk]),
                "Give it one",
            )
        )
    if not Schedule.objects.filter(enabled=True).exists():
        steps.append(
            Step("Nothing is scheduled: changes over time go unseen.", reverse("benchmarks"), "Schedule a benchmark")
        )
    if Run.objects.filter(status=Run.Status.FINISHED, valid=True).count() > 1:
        steps.append(Step("Pick two runs to see what differs.", reverse("runs"), "Compare runs"))
    return steps
