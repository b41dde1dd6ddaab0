"""Benchmarks: list, page, form with its estimate, start."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment
from observatory.pages.access import Request
from observatory.pages.benchmark_form import BenchmarkForm, details
from observatory.pages.benchmark_lists import all_benchmarks
from observatory.pages.benchmark_words import asks
from observatory.pages.estimates import Estimate, estimate, facts_of, pace_of
from observatory.pages.launch import start as launch
from observatory.pages.listing import arrange
from observatory.pages.run_lists import latest
from observatory.pages.tables import BenchmarkTable, ScheduleTable
from observatory.pages.twins import answer, facts
from observatory.runs import spec
from observatory.runs.models import Run
from observatory.schedules.models import Schedule
from runners.spec import SpecError

DEFAULTS = {"levels": [1, 4, 16], "duration_s": 60.0, "warmup_s": 5.0}

#: For programs.
COLUMNS = {
    "id": "pk",
    "name": "name",
    "deployment": "deployment.name",
    "workload": "workload",
    "load": "load",
    "load_hosts": "load_hosts",
    "slo_ttft_ms": "slo_ttft_ms",
    "slo_tpot_ms": "slo_tpot_ms",
    "slo_e2e_ms": "slo_e2e_ms",
    "power_source": "power_source",
}


@login_required
def benchmarks(request: Request, form: str = "html") -> HttpResponseBase:
    """All benchmarks, and the schedules that run them."""
    found = all_benchmarks()
    context = {
        "table": arrange(BenchmarkTable(found), request),
        "schedules": ScheduleTable(Schedule.objects.select_related("benchmark", "study"), orderable=False),
        "deployments": Deployment.objects.exists(),
    }
    return answer(
        request,
        form,
        "benchmarks/benchmarks.html",
        context,
        rows=lambda: (facts(item, COLUMNS) for item in found),
        columns=COLUMNS,
    )


@login_required
def benchmark(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """One benchmark: what it asks, what it will take, its schedules and latest runs."""
    found = get_object_or_404(all_benchmarks(), pk=pk)
    cost, trouble = _estimate(found)
    context = {
        "benchmark": found,
        "asks": asks(found),
        "details": details(found),
        "estimate": cost,
        "trouble": trouble,
        "schedules": ScheduleTable(found.schedules.all(), exclude=("subject",), orderable=False),
        "runs": latest(Run.objects.filter(benchmark=found), exclude=("benchmark", "deployment")),
    }
    return answer(
        request,
        form,
        "benchmarks/benchmark.html",
        context,
        rows=lambda: [facts(found, COLUMNS)],
        data=lambda: facts(found, COLUMNS),
    )


@login_required
def edit(request: Request, pk: int | None = None) -> HttpResponse:
    """The form of a new or known benchmark; "Save and start" also queues a run."""
    found = get_object_or_404(Benchmark, pk=pk) if pk else Benchmark(created_by=request.user)
    form = BenchmarkForm(request.POST or None, instance=found, initial={} if pk else _initial(request))
    if request.method == "POST" and form.is_valid():
        saved = form.save()
        run = launch(request, saved) if "start" in request.POST else None
        if run is None:
            messages.success(request, "Saved.")
        return redirect(run or saved)
    context = {
        "form": form,
        "benchmark": found if pk else None,
        "deployments": Deployment.objects.exists(),
        "back": found.get_absolute_url() if pk else reverse("benchmarks"),
    }
    return render(request, "benchmarks/form.html", context)


def _initial(request: Request) -> dict[str, Any]:
    """Sane defaults; ``?deployment=`` chooses what is measured, ``?copy=`` another benchmark to begin from."""
    copied = _named(Benchmark, request.GET.get("copy", ""))
    if copied:
        return BenchmarkForm.values_of(copied) | {"name": f"{copied.name} (copy)"[:100]}
    deployment = _named(Deployment, request.GET.get("deployment", "")) or Deployment.objects.first()
    return {**DEFAULTS, "deployment": deployment}


def _named(kind: Any, text: str) -> Any:
    return kind.objects.filter(pk=text).first() if text.isascii() and text.isdigit() and len(text) < 19 else None


@login_required
def preview(request: Request) -> HttpResponse:
    """What the form as it stands would take; the form's fields are in the query string. Changes nothing."""
    form = BenchmarkForm(request.GET, instance=Benchmark())
    del form.fields["name"]
    cost = trouble = None
    if form.is_valid():
        cost, trouble = _estimate(form.instance)
    context = {"estimate": cost, "trouble": trouble, "errors": [] if cost or trouble else _complaints(form)}
    return render(request, "benchmarks/estimate.html", context)


def _complaints(form: BenchmarkForm) -> list[str]:
    return [
        f"{form[name].label}: {text}" if name in form.fields else str(text)
        for name, texts in form.errors.items()
        for text in texts
    ]


def _estimate(benchmark: Benchmark) -> tuple[Estimate | None, str]:
    """What it will take; or why it cannot be run as it stands."""
    try:
        asked = spec.build(benchmark)
        return estimate(asked, pace_of(benchmark.deployment, benchmark), facts_of(asked)), ""
    except SpecError as error:
        return None, str(error)


@login_required
@require_POST
def start(request: Request, pk: int) -> HttpResponse:
    """Queues a run and leads to its page."""
    found = get_object_or_404(Benchmark.objects.select_related("deployment__endpoint", "deployment__site"), pk=pk)
    return redirect(launch(request, found) or found)
