"""Sheets of runs, and comparisons."""

from typing import Annotated, Any, Literal

from django.http import HttpResponseBase
from ninja import Field, Query, Router, Schema
from pydantic import StringConstraints

from observatory.api.auth import Request
from observatory.api.errors import Fault, Problem, refused
from observatory.api.records import get
from observatory.api.runs import RunFilter, visible_runs
from observatory.api.shapes import ERRORS, NOT_FOUND, PathKey
from observatory.compare.comparison import MAX_STAGES, MIN_STAGES, Comparison, compare, to_json
from observatory.compare.sources import read_rows, stage_result, with_quality
from observatory.reports import comparisons, results
from observatory.reports.sheets import response
from observatory.runs.models import Stage

router = Router(tags=["results"])

_CSV: dict[str, Any] = {
    "responses": {200: {"description": "CSV", "content": {"text/csv": {"schema": {"type": "string"}}}}}
}

StageKey = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,18}\.[0-9]{1,9}$")]


class Choice(Schema):
    """The first stage is the baseline."""

    stage: Annotated[
        list[StageKey],
        Field(min_length=MIN_STAGES, max_length=MAX_STAGES, description="RUN.STAGE, such as 12.0: run 12, first stage"),
    ]


class ComparisonOut(Schema):
    """``rows`` has one entry per metric and stage; ``refused`` one per stage: reasons by what they cover."""

    baseline: str
    stages: list[dict[str, Any]]
    refused: list[dict[str, str]]
    rows: list[dict[str, Any]]
    setup: list[dict[str, Any]]
    notes: list[str]


@router.get("/runs.csv", summary="Runs as CSV: a row a stage", response={**ERRORS}, openapi_extra=_CSV)
def runs_sheet(request: Request, filters: Query[RunFilter]) -> HttpResponseBase:
    """A row per stage, a column per metric and statistic."""
    return response(results.wide(filters.filter(visible_runs())), "runs.csv")


@router.get("/runs/{key}.csv", summary="One run as CSV", response={**ERRORS, **NOT_FOUND}, openapi_extra=_CSV)
def run_sheet(request: Request, key: PathKey, form: Literal["long", "wide"] = "long") -> HttpResponseBase:
    """long: a row per measurement; wide: a row per stage."""
    run = get(visible_runs(), key)
    sheet = results.long(run) if form == "long" else results.wide(visible_runs().filter(pk=key))
    return response(sheet, f"run-{key}.csv")


@router.get("/comparison", summary="Two to eight stages compared", response={200: ComparisonOut, **ERRORS, **NOT_FOUND})
def comparison(request: Request, choice: Query[Choice]) -> Any:
    """Two to eight stages against the first."""
    return to_json(_compared(choice))


@router.get("/comparison.csv", summary="The comparison as CSV", response={**ERRORS, **NOT_FOUND}, openapi_extra=_CSV)
def comparison_sheet(request: Request, choice: Query[Choice]) -> HttpResponseBase:
    """The same as a sheet: a row per metric and stage."""
    return response(comparisons.sheet(_compared(choice)), "comparison.csv")


def _compared(choice: Choice) -> Comparison:
    if len(set(choice.stage)) < len(choice.stage):
        raise refused([Fault(field="stage", problem="Name each stage once.")])
    found = [_stage(key) for key in choice.stage]
    results = [stage_result(stage, label, read_rows(stage.run.requests_file)) for stage, label in found]
    return compare(with_quality(results, [stage.run for stage, _ in found]))


def _stage(key: str) -> tuple[Stage, str]:
    run, index = (int(part) for part in key.split("."))
    found = Stage.objects.select_related("run").filter(run=run, index=index).first()
    if found is None:
        raise Problem(
            404,
            "not_found",
            f"Run {run} has no stage {index}.",
            "Take run and stage from the list of runs; stages count from 0.",
        )
    return found, f"run {run}.{index}"
