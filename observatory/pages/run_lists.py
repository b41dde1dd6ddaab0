"""Lists of runs: the queries behind the runs page and the short lists on other pages."""

from collections.abc import Iterable
from typing import Any

from django.db.models import QuerySet

from observatory.pages.run_columns import DEFAULT, Column, number, with_numbers, with_peak, with_value
from observatory.pages.tables import MetricColumn, RunTable
from observatory.pages.twins import Row
from observatory.runs.models import Run

LATEST = 10


def shown(runs: QuerySet[Run], columns: Iterable[Column]) -> QuerySet[Run]:
    """The runs with all that a table of these columns needs, in a fixed number of queries."""
    light = runs.select_related("benchmark", "deployment").defer("spec", "setup", "summary", "progress_series")
    return with_numbers(with_peak(light), tuple(columns))


def table(runs: QuerySet[Run], columns: tuple[Column, ...], sort: str = "") -> RunTable:
    """The table; ``sort`` is the order that the URL asks for, so that only its number is looked up for all rows."""
    found = shown(runs, columns)
    by = next((column for column in columns if column.key == sort.lstrip("-")), None)
    if by:
        found = with_value(found, by)
    return RunTable(found, extra_columns=[(column.key, MetricColumn(column)) for column in columns])


def latest(runs: QuerySet[Run], exclude: tuple[str, ...] = ()) -> RunTable:
    """The newest few runs, for the page of what they belong to; ``exclude`` are columns that the page tells already."""
    found = shown(runs, DEFAULT)[:LATEST]
    return RunTable(
        list(found),
        extra_columns=[(column.key, MetricColumn(column)) for column in DEFAULT],
        orderable=False,
        exclude=exclude,
    )


def row(run: Run, columns: Iterable[Column]) -> Row:
    """For programs: the run, and its numbers in base units (null when missing)."""
    facts: dict[str, Any] = {
        "id": run.pk,
        "status": run.status,
        "valid": run.valid,
        "reason": run.reason,
        "benchmark": run.asks,
        "deployment": run.deployment.name,
        "trigger": run.trigger,
        "queued_at": run.queued_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "load_kind": getattr(run, "peak_kind", None),
        "load_value": getattr(run, "peak_value", None),
    }
    for column in columns:
        found = number(run, column)
        facts[column.key] = found.value if found else None
    return facts
