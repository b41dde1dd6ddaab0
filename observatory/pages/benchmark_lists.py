"""Benchmarks with what their tables show."""

from django.db.models import Count, OuterRef, QuerySet, Subquery

from observatory.benchmarks.models import Benchmark
from observatory.runs.models import Run


def all_benchmarks() -> QuerySet[Benchmark]:
    """Each with its number of runs, ``run_count``, and its last one: ``last_run``, ``last_status``, ``last_valid``."""
    last = Run.objects.filter(benchmark=OuterRef("pk")).order_by("-pk")
    return Benchmark.objects.select_related("deployment__endpoint").annotate(
        run_count=Count("runs"),
        last_run=Subquery(last.values("pk")[:1]),
        last_status=Subquery(last.values("status")[:1]),
        last_valid=Subquery(last.values("valid")[:1]),
    )
