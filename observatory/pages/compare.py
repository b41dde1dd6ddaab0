"""Two to eight stages of runs side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse

from observatory.compare.comparison import MAX_STAGES, MIN_STAGES, Cell, Comparison, Row, to_json
from observatory.compare.comparison import compare as compare_stages
from observatory.compare.refusals import Part
from observatory.compare.sources import read_rows, stage_result, with_quality
from observatory.compare.stages import StageResult
from observatory.pages import charts
from observatory.pages.access import Request
from observatory.pages.results import interval_text, title
from observatory.pages.run import LATENCIES, LATENCY_LABELS
from observatory.pages.selection import Selection, load_of, select
from observatory.pages.templatetags.numbers import NO_INTERVAL
from observatory.pages.twins import answer
from observatory.reports import comparisons
from observatory.runs.models import Run, Stage
from runners.loads import long_name
from runners.metrics import BY_KEY, display

OFFERED = 30


@login_required
def compare(request: Request, form: str = "html") -> HttpResponseBase:
    """``runs`` and ``stage`` choose what stands side by side (see ``selection``), ``metric`` the distribution."""
    chosen = select(request.GET)
    added = request.GET.get("add", "")
    if added.isdecimal() and len(chosen.runs) < MAX_STAGES:
        ids = ",".join([*(str(run.pk) for run in chosen.runs), added])
        return redirect(f"{reverse('compare')}?runs={ids}")
    found = compare_stages(results(chosen)) if len(chosen.stages) >= MIN_STAGES else None
    return answer(
        request,
        form,
        "compare/compare.html",
        _context(request, chosen, found) if form == "html" else {},
        rows=list,
        sheet=(lambda: comparisons.sheet(found)) if found else None,
        columns=comparisons.COLUMNS,
        data=lambda: to_json(found) if found else {"rows": [], "problems": [*chosen.problems, _TOO_FEW]},
    )


_TOO_FEW = f"Choose {MIN_STAGES} to {MAX_STAGES} runs with results: ?runs=12,15."


def results(chosen: Selection) -> list[StageResult]:
    """Each file of raw rows is read once, however many of its stages are compared."""
    files = {run.pk: read_rows(run.requests_file) for run in chosen.runs}
    labels = _labels(chosen)
    plain = [
        stage_result(stage, label, files[stage.run_id]) for stage, label in zip(chosen.stages, labels, strict=True)
    ]
    return with_quality(plain, chosen.runs)


def _labels(chosen: Selection) -> list[str]:
    """ "run 12", with its load where a run stands here more than once."""
    ids = [run.pk for run in chosen.runs]
    return [
        f"run {run.pk}" if ids.count(run.pk) == 1 else f"run {run.pk} at {stage}"
        for run, stage in zip(chosen.runs, chosen.stages, strict=True)
    ]


@dataclass(frozen=True)
class Column:
    """A stage's head: what it is and what can be done with it. ``refusal`` is why nothing of it is compared."""

    run: Run
    stage: Stage
    label: str
    title: str
    load: str
    colour: str
    choices: Sequence[tuple[int, str]]
    first: str
    without: str
    refusal: str


@dataclass(frozen=True)
class Shown:
    """A cell in words: ``delta`` with its unit, ``interval`` of the delta; ``reason`` unless the head has it."""

    cell: Cell
    delta: str
    interval: str
    kind: str
    reason: str
    note: str = ""


def _context(request: Request, chosen: Selection, found: Comparison | None) -> dict[str, Any]:
    metric = request.GET.get("metric", "")
    metric = metric if metric in LATENCIES else LATENCIES[0]
    context: dict[str, Any] = {
        "chosen": chosen,
        "columns": _columns(chosen, found),
        "offered": _offered(chosen),
        "common": [(long_name(*load), chosen.at(load), load == load_of(chosen.stages[0])) for load in chosen.common],
        "own_stages": _own_stages(chosen),
        "query": request.GET.urlencode(),
        "metric": metric,
        "latencies": LATENCY_LABELS,
    }
    if found:
        heads = [column.refusal for column in context["columns"]]
        context |= {
            "found": found,
            "rows": [(row, [_shown(row, *pair) for pair in zip(row.cells, heads, strict=True)]) for row in found.rows],
        }
    return context


def _columns(chosen: Selection, found: Comparison | None) -> list[Column]:
    labels = _labels(chosen)
    return [
        Column(
            run=run,
            stage=stage,
            label=labels[position],
            title=title(run),
            load=str(stage),
            colour=charts.colour(position),
            choices=[(item.index, str(item)) for item in run.stages.all()],
            first=chosen.first(position) if position else "",
            without=chosen.without(position),
            refusal=found.refused[position].get(Part.ALL, "") if found else "",
        )
        for position, (run, stage) in enumerate(zip(chosen.runs, chosen.stages, strict=True))
    ]


def _offered(chosen: Selection) -> list[tuple[int, str]]:
    """Recent runs with results that are not here yet, those of the same benchmark first."""
    here = {run.pk for run in chosen.runs}
    ended = Run.objects.filter(stages__isnull=False).distinct().exclude(pk__in=here)
    recent = list(ended.select_related("benchmark", "deployment", "endpoint")[:OFFERED])
    same = {run.benchmark_id for run in chosen.runs}
    recent.sort(key=lambda run: (run.benchmark_id not in same, -run.pk))
    return [(run.pk, f"run {run.pk}: {title(run)}") for run in recent]


def _own_stages(chosen: Selection) -> str:
    """Where one run stands alone: the address that compares its own stages; empty when it has only one."""
    if len(chosen.runs) != 1 or chosen.runs[0].stages.count() < MIN_STAGES:
        return ""
    indexes = [stage.index for stage in chosen.runs[0].stages.all()][:MAX_STAGES]
    ids = ",".join([str(chosen.runs[0].pk)] * len(indexes))
    return f"?runs={ids}&stage={','.join(map(str, indexes))}"


def _shown(row: Row, cell: Cell, head: str) -> Shown:
    unit = BY_KEY[row.metric.key].unit
    interval = (cell.low, cell.high) if cell.low is not None and cell.high is not None else None
    delta = "" if cell.delta is None else _signed(cell.delta, unit)
    kind = cell.verdict.name.lower() if cell.verdict else "baseline"
    alone = row.statistic == "mean" and cell.number is not None and cell.number.low is None
    note = NO_INTERVAL if alone else ""
    return Shown(cell, delta, interval_text(interval, unit), kind, "" if head else cell.reason, note)


def _signed(value: float, unit: str) -> str:
    text, name = display(value, unit)
    return f"{'+' if value > 0 else ''}{text} {name}".replace("-", "−").strip()


@login_required
def chart(request: Request, name: str) -> HttpResponse:
    """The distributions overlaid, as JSON."""
    if name != "ecdf":
        raise Http404(f"There is no chart called {name}.")
    metric = request.GET.get("metric", "")
    metric = metric if metric in LATENCIES else LATENCIES[0]
    points = [
        charts.StagePoint(
            f"{result.label}, {result.load}", result.numbers, result.samples, colour=charts.colour(position)
        )
        for position, result in enumerate(results(select(request.GET)))
    ]
    made = charts.ecdf(points, metric)
    return JsonResponse(made.to_json(), json_dumps_params={"allow_nan": False})
