"""Quality: evaluations, what they found, and quality against money and energy."""

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count, Max
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from observatory.compare.quality import number
from observatory.compare.stages import Number
from observatory.pages.access import Request
from observatory.pages.launch import BROKER_AWAY
from observatory.pages.listing import arrange
from observatory.pages.quality_charts import AXES, Point, quality_against
from observatory.pages.quality_forms import EvaluationForm, ImportForm, TaskSetForm
from observatory.pages.quality_lists import QualityTable, stored
from observatory.pages.quality_words import answer_rows, parts
from observatory.pages.results import RunResults, waits_for
from observatory.pages.run import progress_context
from observatory.pages.twins import answer, facts
from observatory.quality import evaluations, imports, sets
from observatory.quality.models import QualityResult, TaskSet
from observatory.runs import dispatch
from observatory.runs.models import Run
from runners.quality import tasks
from runners.strict_json import SpecError

DRAWN = 30
#: For programs.
COLUMNS = {
    "id": "pk",
    "deployment": "deployment.name",
    "source": "source",
    "task_set": "task_set",
    "tasks_sha256": "tasks_sha256",
    "metric": "metric",
    "value": "value",
    "low": "low",
    "high": "high",
    "n": "n",
    "status": "job.status",
    "run": "beside_id",
    "job": "job_id",
    "reference": "reference_id",
    "identical": "agreement.identical.share",
    "measured_at": "measured_at",
}


@login_required
def quality(request: Request, form: str = "html") -> HttpResponseBase:
    """All results, and one task set's against money and energy."""
    found = stored()
    known = _sets()
    chosen = _chosen(request, known)
    context = {
        "table": arrange(QualityTable(found), request),
        "sets": known,
        "chosen": chosen,
        "own_sets": TaskSet.objects.all(),
        "axis": _axis(request),
        "axes": [("usd_per_mtok_output", "$ per M output tokens"), ("wh_per_query", "Wh per query")],
    }
    rows = [facts(item, COLUMNS) for item in found] if form != "html" else []
    return answer(request, form, "quality/quality.html", context, rows=lambda: rows, columns=COLUMNS)


def _sets() -> list[dict[str, Any]]:
    """Task sets that have results, the one that most deployments were asked first."""
    known = QualityResult.objects.known().order_by().values("tasks_sha256")
    counted = known.annotate(name=Max("task_set"), many=Count("deployment", distinct=True), newest=Max("pk"))
    return [dict(item) for item in counted.order_by("-many", "-newest")]


def _chosen(request: Request, known: list[dict[str, Any]]) -> dict[str, Any] | None:
    asked = request.GET.get("set", "")
    return next((item for item in known if item["tasks_sha256"] == asked), known[0] if known else None)


def _axis(request: Request) -> str:
    asked = request.GET.get("axis", "")
    return asked if asked in AXES else AXES[0]


@login_required
def chart(request: Request) -> HttpResponse:
    """Accuracy against ``axis`` over the deployments that were asked the task set ``set``."""
    chosen, metric = _chosen(request, _sets()), _axis(request)
    results = stored().known().filter(tasks_sha256=chosen["tasks_sha256"]) if chosen else QualityResult.objects.none()
    newest: dict[int, QualityResult] = {}
    for result in results:
        newest.setdefault(result.deployment_id, result)
    points = [_point(result, metric) for result in list(newest.values())[:DRAWN]]
    made = quality_against(points, metric, chosen["name"] if chosen else "")
    return JsonResponse(made.to_json(), json_dumps_params={"allow_nan": False})


def _point(result: QualityResult, metric: str) -> Point:
    assert result.value is not None  # noqa: S101
    accuracy = number(result.value, result.low, result.high, result.n)
    run = result.beside or _newest_load(result.deployment_id)
    price, words = _price(run, metric) if run else (None, "")
    return Point(result.deployment.name, accuracy, price, words, result.get_absolute_url())


def _newest_load(deployment_id: int) -> Run | None:
    ended = Run.objects.filter(deployment=deployment_id, kind=Run.Kind.LOAD, status=Run.Status.FINISHED, valid=True)
    return ended.first()


def _price(run: Run, metric: str) -> tuple[Number | None, str]:
    """What the run's best stage says of it."""
    results = RunResults(run)
    stage = results.best
    found = stage.numbers.get((metric, "mean")) if stage else None
    return found, f"run {run.pk} at {stage.label}" if stage else f"run {run.pk}"


@login_required
def result(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """One result: its scores, how it agrees with its reference, its answers."""
    found = get_object_or_404(stored().select_related("reference__deployment", "beside", "reference_deployment"), pk=pk)
    return answer(
        request,
        form,
        "quality/result.html",
        _context(request, found) if form == "html" else {},
        rows=lambda: answer_rows(found),
        data=lambda: {**facts(found, COLUMNS), "summary": found.summary, "agreement": found.agreement},
    )


def _context(request: Request, found: QualityResult) -> dict[str, Any]:
    context: dict[str, Any] = {"result": found, "job": found.job, "run": found.job}
    if found.job and not found.job.ended:
        waiting = found.job.status == Run.Status.QUEUED
        return context | ({"waits": waits_for(found.job)} if waiting else progress_context(found.job))
    alike = stored().known().filter(tasks_sha256=found.tasks_sha256, source=QualityResult.Source.TASKS)
    context |= {
        "parts": parts(found),
        "scores": found.summary.get("scores") or [],
        "summary": found.summary or (found.job.summary if found.job else None) or {},
        "others": alike.exclude(pk=found.pk)[:50] if found.source == QualityResult.Source.TASKS else [],
    }
    wrong = request.GET.get("show") == "all"
    shown = answer_rows(found)
    return context | {
        "answers": shown if wrong else [row for row in shown if row["note"]],
        "all": wrong,
        "n": len(shown),
    }


@login_required
def evaluate(request: Request) -> HttpResponse:
    """The form of a new evaluation, and its start."""
    form = EvaluationForm(request.POST or None, initial=request.GET.dict())
    if request.method == "POST" and form.is_valid():
        asked = form.cleaned_data
        try:
            queued = evaluations.queue(
                asked["deployment"],
                asked["task_set"],
                Run.Trigger.PAGE,
                request.user,
                concurrency=asked["concurrency"],
                output_tokens=asked["output_tokens"],
                reference=asked["reference"],
                beside=asked["run"],
                confirmed=asked["confirm_usd"],
            )
        except SpecError as error:
            form.add_error(None, str(error))
        else:
            _publish(request, queued)
            return redirect(queued)
    return _form(request, form, "Evaluate a deployment", "Start")


def _publish(request: Request, queued: QualityResult) -> None:
    assert queued.job is not None  # noqa: S101
    if not dispatch.publish(queued.job):
        messages.warning(request, BROKER_AWAY)


def _form(request: Request, form: Any, heading: str, button: str) -> HttpResponse:
    context = {"form": form, "heading": heading, "button": button, "back": reverse("quality")}
    return render(request, "form.html", context)


@login_required
def upload(request: Request) -> HttpResponse:
    """The form of lm-eval's results."""
    form = ImportForm(request.POST or None, request.FILES or None, initial=request.GET.dict())
    if request.method == "POST" and form.is_valid():
        asked = form.cleaned_data
        try:
            kept = imports.add(asked["file"].read(), asked["deployment"], request.user, asked["run"])
        except SpecError as error:
            form.add_error("file", str(error))
        else:
            messages.success(request, "Kept. Its numbers stand beside the deployment's own.")
            return redirect(kept)
    return _form(request, form, "Add results of lm-eval", "Add")


@login_required
def upload_set(request: Request) -> HttpResponse:
    """The form of a task set."""
    form = TaskSetForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        try:
            kept = sets.add(form.cleaned_data["name"], form.cleaned_data["file"].read(), request.user)
        except SpecError as error:
            form.add_error("name" if str(error).startswith("name:") else "file", str(error))
        else:
            messages.success(request, f"Kept: {kept.items} questions. Put them to a deployment below.")
            return redirect(f"{reverse('quality-new')}?task_set={kept.name}")
    return _form(request, form, "Add a task set", "Add")


@login_required
@require_POST
def compare_with(request: Request, pk: int) -> HttpResponseRedirect:
    """Compares the answers with those of another result of the same tasks."""
    found = get_object_or_404(stored(), pk=pk)
    other = request.POST.get("reference", "")
    alike = stored().known().filter(tasks_sha256=found.tasks_sha256).exclude(pk=pk)
    reference = alike.filter(pk=other).first() if other.isascii() and other.isdigit() and len(other) < 16 else None
    if reference is None:
        messages.error(request, "Not compared. Choose a result of the same task set.")
    elif not evaluations.compare(found, reference):
        messages.error(request, "Not compared: the answers of one of the two are not kept.")
    return redirect(found)


@login_required
@require_POST
def again(request: Request, pk: int) -> HttpResponseRedirect:
    """The same evaluation once more."""
    found = get_object_or_404(stored(), pk=pk)
    if found.job is None:
        raise Http404("An uploaded result cannot be run again.")
    spec = found.job.spec
    try:
        queued = evaluations.queue(
            found.deployment,
            tasks.TaskSet(spec["tasks"]["name"], tuple(spec["tasks"]["items"])),
            Run.Trigger.PAGE,
            request.user,
            concurrency=spec["concurrency"],
            output_tokens=spec["output_tokens"],
            reference=found.reference_deployment if found.reference_deployment_id != found.deployment_id else None,
            beside=found.beside,
            target=found.target,
        )
    except SpecError as error:
        messages.error(request, f"Not started. {error}")
        return redirect(found)
    _publish(request, queued)
    return redirect(queued)


@login_required
def answers_file(request: Request, pk: int) -> FileResponse:
    """answers.parquet as it was stored."""
    found = get_object_or_404(stored(), pk=pk)
    file = found.job.answers_file if found.job else None
    if not file or not file.name or not file.storage.exists(file.name):
        raise Http404(f"Quality result {pk} keeps no answers.")
    return FileResponse(file.open("rb"), as_attachment=True, filename=f"quality-{pk}-answers.parquet")
