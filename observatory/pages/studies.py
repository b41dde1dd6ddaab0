"""Studies: list, page with progress and result, start, cancel."""

import json
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import require_POST

from observatory.pages import charts, study_charts
from observatory.pages.access import Request
from observatory.pages.benchmark_words import asks
from observatory.pages.estimates import estimate, pace_of, questions_s
from observatory.pages.listing import arrange
from observatory.pages.tables import ScheduleTable, StudyTable, TrialTable
from observatory.pages.twins import answer, facts
from observatory.runs.models import Run
from observatory.studies import design, questions, trials, verdict
from observatory.studies.findings import Cell, Result, Row
from observatory.studies.measures import DesignError
from observatory.studies.models import Arm, Study, Trial
from observatory.theory.registry import BY_NAME
from runners.quality.spec import QualitySpec
from runners.spec import SpecError

#: For programs.
COLUMNS = {
    "id": "pk",
    "name": "name",
    "question": "question",
    "template": "template",
    "repeats": "repeats",
    "created_at": "created_at",
}
#: Quality against what a query takes.
QUALITY_CHARTS = {"quality-usd": "usd_per_query", "quality-wh": "wh_per_query"}
CHARTS = ("values", "effects", *QUALITY_CHARTS)


def all_studies() -> QuerySet[Study]:
    """Each with its arms and trials at hand."""
    return Study.objects.prefetch_related(
        "arms__deployment__endpoint", "arms__benchmark__deployment__endpoint", "trials"
    )


@login_required
def studies(request: Request, form: str = "html") -> HttpResponseBase:
    """All studies with their last answers."""
    found = all_studies()
    return answer(
        request,
        form,
        "studies/studies.html",
        {"table": arrange(StudyTable(found), request)},
        rows=lambda: ({**facts(item, COLUMNS), **_last(item)} for item in found),
        columns=(*COLUMNS, "trial", "status", "verdict", "answer"),
    )


def _last(study: Study) -> dict[str, Any]:
    trial = next(iter(study.trials.all()), None)
    result = (trial.result if trial else None) or {}
    return {
        "trial": trial.pk if trial else None,
        "status": trial.status if trial else None,
        "verdict": result.get("verdict"),
        "answer": result.get("answer"),
    }


@login_required
def study(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """One study: its last trial (or ``?trial=``) as it stands, and its design."""
    found = get_object_or_404(all_studies(), pk=pk)
    trial = _chosen(found, request.GET.get("trial", ""))
    result = verdict.of(trial, request.GET.get("set", "")) if trial else None
    return answer(
        request,
        form,
        "studies/study.html",
        _context(request, found, trial, result) if form == "html" else {},
        rows=lambda: verdict.flat_rows(result) if result else [],
        data=lambda: as_json(found, trial, result),
    )


def as_json(study: Study, trial: Trial | None, result: Result | None) -> dict[str, Any]:
    """The design, and the trial as it stands; null while there is none."""
    design = {
        **facts(study, COLUMNS),
        "spec": study.spec,
        "measures": study.measures,
        "smallest_effect_percent": study.smallest_effect_percent,
        "prediction": study.prediction,
        "quality": study.quality,
        "factor": study.factor,
        "order": study.order,
        "seed": study.seed,
        "arms": [
            {"name": arm.name, "deployment": arm.deployment.name, "spec": arm.spec, "theory": arm.theory, "x": arm.x}
            for arm in study.arms.all()
        ],
    }
    if trial is None or result is None:
        return {"study": design, "trial": None}
    slots = [
        {"repeat": turn.slot.repeat, "arm": turn.slot.arm.name, "run": turn.slot.run_id, "unused": turn.reason}
        for turn in result.turns
    ]
    told = {"id": trial.pk, "status": trial.status, "started_at": trial.started_at, "ended_at": trial.ended_at}
    return {"study": design, "trial": {**told, "turns": slots, "result": verdict.to_json(result)}}


def _chosen(study: Study, text: str) -> Trial | None:
    listed = list(study.trials.all())
    if not text:
        return listed[0] if listed else None
    found = next((trial for trial in listed if str(trial.pk) == text), None)
    if found is None:
        raise Http404(f"This study has no trial {text}.")
    return found


def _context(request: Request, study: Study, trial: Trial | None, result: Result | None) -> dict[str, Any]:
    arms = list(study.arms.all())
    context: dict[str, Any] = {
        "study": study,
        "arms": [(arm, asks(arm.benchmark), _pretty(arm.spec)) for arm in arms],
        "spec": _pretty(study.spec),
        "trial": trial,
        "trials": TrialTable(study.trials.all(), orderable=False),
        "schedules": ScheduleTable(study.schedules.all(), exclude=("subject",), orderable=False),
        "running": next((item for item in study.trials.all() if not item.ended), None),
        "theory": BY_NAME.get(study.prediction.get("calculator", "")),
        **_takes(study, arms),
    }
    if trial is None or result is None:
        return context
    index = _measure_index(request, result)
    return (
        context
        | progress_context(trial, result)
        | {
            "result": result,
            "shown": index,
            "measures": [(number, row.measure.label) for number, row in enumerate(result.rows)],
            "chart_query": urlencode({"trial": str(trial.pk), "measure": str(index), "set": result.quality.sha256}),
            "account": list(zip(result.quality.arms, *_takes_of(result), strict=True)),
            "predicted": _predicted(study, result) if study.prediction else [],
        }
    )


def _takes_of(result: Result) -> list[tuple[Cell, ...]]:
    """What a query of each arm takes: money, then energy."""
    rows = {row.measure.key: row.cells for row in result.rows}
    return [rows[metric, "mean"] for metric in QUALITY_CHARTS.values()]


def _takes(study: Study, arms: list[Arm]) -> dict[str, Any]:
    """What a trial will take, the start of engines left out; or why it cannot be carried out as it stands."""
    try:
        each = [estimate(design.asked_of(arm, 1), pace_of(arm.deployment, arm.benchmark)) for arm in arms]
        asked = _questions(study, arms)
    except (SpecError, DesignError) as error:
        return {"trouble": str(error)}
    asked_s = [questions_s(spec, pace_of(arm.deployment, arm.benchmark)) for arm, spec in asked]
    prices = [arm.deployment.usd_per_hour for arm, _ in asked]
    asked_usd = [None if price is None else float(price) * s / 3600 for price, s in zip(prices, asked_s, strict=True)]
    loads_usd = _times(study.repeats, [item.usd for item in each])
    return {
        "questions": sum(len(spec.tasks.tasks) for _, spec in asked),
        "seconds": study.repeats * sum(item.seconds for item in each) + sum(asked_s),
        "requests": _times(study.repeats, [item.requests for item in each]),
        "usd": _times(1, [loads_usd, *asked_usd]),
        "pace": each[0].pace,
    }


def _questions(study: Study, arms: list[Arm]) -> list[tuple[Arm, QualitySpec]]:
    """What is put to whom after all repeats."""
    asked = questions.read(study)
    return [(arm, questions.spec(study, asked, arm)) for arm in questions.asked_once(study, arms)] if asked else []


def _times(repeats: int, each: Sequence[float | None]) -> float | None:
    """Of all repeats together; unknown where one is."""
    known = [value for value in each if value is not None]
    return repeats * sum(known) if len(known) == len(each) else None


def _pretty(spec: dict[str, Any]) -> str:
    return json.dumps(spec, indent=2) if spec else ""


def _measure_index(request: Request, result: Result) -> int:
    text = request.GET.get("measure", "")
    return int(text) if text.isascii() and text.isdigit() and int(text[:4]) < len(result.rows) else 0


def progress_context(trial: Trial, result: Result) -> dict[str, Any]:
    """A row an arm, a turn a repeat; what runs now."""
    repeats = range(1, trial.study.repeats + 1)
    asks = {one.slot.pk: one.slot for one in result.quality.arms if one.slot}.values()
    slots = [turn.slot for turn in result.turns] + list(asks)
    over = sum(bool(slot.note) or bool(slot.run and slot.run.ended) for slot in slots)
    current = next((slot for slot in slots if slot.run and not slot.run.ended), None)
    return {
        "trial": trial,
        "grid": [
            (found.arm, [found.turns.get(n) for n in repeats], one.slot)
            for found, one in zip(result.arms, result.quality.arms, strict=True)
        ],
        "repeats": repeats,
        "asks": bool(asks),
        "over": over,
        "turns": len(slots),
        "percent": round(100 * (over + _fraction(current.run if current else None)) / len(slots), 1),
        "current": current,
    }


def _fraction(run: Run | None) -> float:
    found = run.progress.get("fraction") if run else None
    return float(found) if isinstance(found, int | float) else 0.0


def _predicted(study: Study, result: Result) -> list[dict[str, Any]]:
    """Predicted beside measured, an arm a row, with a link to the calculator as it was put to use."""
    address = reverse("theory-calculator", args=[study.prediction["calculator"]])
    return [
        {
            "arm": found.arm,
            "cell": cell,
            "url": f"{address}?{urlencode(cell.predicted.inputs)}" if cell.predicted and cell.predicted.inputs else "",
        }
        for found, cell in zip(result.arms, result.rows[0].cells, strict=True)
    ]


@login_required
def progress(request: Request, pk: int) -> HttpResponse:
    """What moves on the page of a running trial; when it has ended, the whole page is asked for anew."""
    trial = get_object_or_404(Trial.objects.select_related("study"), pk=pk)
    if trial.ended:
        return HttpResponse(headers={"HX-Refresh": "true"})
    return render(request, "studies/progress.html", progress_context(trial, verdict.of(trial)))


@login_required
def chart(request: Request, pk: int, name: str) -> HttpResponse:
    """A chart of a trial as JSON."""
    found = get_object_or_404(all_studies(), pk=pk)
    trial = _chosen(found, request.GET.get("trial", ""))
    if name not in CHARTS:
        raise Http404(f"There is no chart called {name}.")
    made = charts.NOTHING
    if trial:
        result = verdict.of(trial, request.GET.get("set", ""))
        made = _drawn(name, found, result, result.rows[_measure_index(request, result)])
    return JsonResponse(made.to_json(), json_dumps_params={"allow_nan": False})


def _drawn(name: str, study: Study, result: Result, row: Row) -> charts.Chart:
    if name in QUALITY_CHARTS:
        return study_charts.quality(result, QUALITY_CHARTS[name])
    if name == "values":
        return study_charts.values(result, row, study.factor)
    return study_charts.effects(result, row, study.smallest_effect_percent)


@login_required
@require_POST
def start(request: Request, pk: int) -> HttpResponse:
    """Carries the study out once more."""
    found = get_object_or_404(Study, pk=pk)
    try:
        return redirect(trials.start(found, Run.Trigger.PAGE, request.user))
    except trials.Busy as error:
        messages.error(request, str(error))
        return redirect(error.trial)


@login_required
@require_POST
def cancel(request: Request, pk: int) -> HttpResponse:
    """Stops a trial; what was measured is kept."""
    trial = get_object_or_404(Trial, pk=pk)
    if trials.cancel(trial):
        messages.success(request, "Cancelled. What was measured is kept.")
    else:
        messages.info(request, "It had ended already.")
    return redirect(trial)
