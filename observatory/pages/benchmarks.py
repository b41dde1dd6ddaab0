"""Benchmarks: list and page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from observatory.benchmarks.models import Benchmark
from observatory.pages.access import Request
from observatory.pages.twins import answer


@login_required
def benchmarks(request: Request, form: str = "html") -> HttpResponse:
    """All benchmarks, by name."""
    found = Benchmark.objects.all()
    return answer(
        request,
        form,
        "benchmarks/benchmarks.html",
        {"benchmarks": found},
        rows=lambda: [{"id": benchmark.pk} for benchmark in found],
    )


@login_required
def benchmark(request: Request, pk: int, form: str = "html") -> HttpResponse:
    """One benchmark."""
    found = get_object_or_404(Benchmark, pk=pk)
    return answer(request, form, "benchmarks/benchmark.html", {"benchmark": found}, rows=lambda: [{"id": found.pk}])
