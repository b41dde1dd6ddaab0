"""The page of one run in each of its states."""

from collections.abc import Mapping
from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import FileResponse, Http404, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from observatory.pages import (
    account_charts,
    charts,
    quality_lists,
    request_rows,
    result_tables,
    run_carbon,
    run_cost,
    run_energy,
    run_pool_cost,
    run_roofline,
    server,
)
from observatory.pages.access import Request, staff_required
from observatory.pages.commands import bench_command
from observatory.pages.launch import start
from observatory.pages.results import RunResults, StageResults, headline, notices, sentence, title, totals, waits_for
from observatory.pages.timeline import request_timeline
from observatory.pages.twins import answer
from observatory.reports.results import long
from observatory.runs import afterwards, pricing
from observatory.runs.models import Run
from runners.loads import KINDS
from runners.meters import Prometheus
from runners.metrics import BY_KEY
from runners.spec import SpecError

TABS = ("latency", "timeline", "energy", "cost", "server", "requests", "setup")
CHARTS = ("load", "ecdf", "percentiles", "timeline", "server", "energy", "power", "carbon", "water", "cost", "live")
LATENCIES = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms")
LATENCY_LABELS = tuple((key, BY_KEY[key].label) for key in LATENCIES)
PHASES = {
    "power": "Waiting for the power workers of the machines that serve.",
    "engine": "Starting the engine.",
    "check": "Checking the endpoint.",
    "calibrate": "Calibrating the load generator.",
    "wait": "Waiting until all load hosts are ready.",
    "cool": "Waiting for a cool start.",
    "idle": "Reading idle power.",
    "warmup": "Warming up.",
    "measure": "Measuring.",
    "drain": "Waiting for the last answers.",
    "summary": "Adding up.",
}


@login_required
def run(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """The page and its twins: the JSON is the summary with the state, the CSV one row a measurement. An evaluation has
    a page of its own.
    """
    found = _run(pk)
    if found.kind == Run.Kind.QUALITY and form == "html":
        return redirect(found.quality)
    results = RunResults(found)
    return answer(
        request,
        form,
        "run/run.html",
        _context(request, results) if form == "html" else {},
        rows=list,
        data=lambda: as_json(found),
        sheet=lambda: long(found),
    )


def as_json(run: Run) -> dict[str, Any]:
    """The summary (null while there is none) with the run's state."""
    return {
        "run": run.pk,
        "title": title(run),
        "status": run.status,
        "valid": run.valid,
        "reason": {"code": run.reason_code, "text": run.reason},
        "queued_at": run.queued_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "progress": run.progress,
        "setup": run.setup,
        "spec": run.spec,
        "summary": run.summary,
    }


def _run(pk: int) -> Run:
    return get_object_or_404(Run.objects.select_related("benchmark", "deployment", "endpoint", "started_by"), pk=pk)


def _context(request: Request, results: RunResults) -> dict[str, Any]:
    found = results.run
    context: dict[str, Any] = {"run": found, "title": title(found)}
    if found.status == Run.Status.QUEUED:
        return context | {"waits": waits_for(found), "tab": "setup"} | _setup(results)
    if found.status == Run.Status.RUNNING:
        return context | progress_context(found) | {"tab": "setup"} | _setup(results)
    stage = results.chosen(request.GET.get("stage", ""))
    kept = ("timeline", "requests", "setup") if found.requests_file else ("setup",)
    tabs = [name for name in TABS if stage or name in kept]
    tab = request.GET.get("tab", "")
    tab = tab if tab in tabs else tabs[0]
    context |= {
        "notices": notices(results, stage),
        "stages": results.stages,
        "stage": stage,
        "best": results.best,
        "highest": results.highest,
        "best_metric": results.best_metric,
        "totals": totals(results.stages),
        "quality": quality_lists.beside(found),
        "tabs": tabs,
        "tab": tab,
    }
    if stage:
        context |= {"headline": headline(results, stage), "stage_rows": result_tables.stage_rows(results)}
        context["load_name"] = KINDS[stage.stage.load_kind].axis.lower()
    return context | _tab(request, results, stage, tab)


def _tab(request: Request, results: RunResults, stage: StageResults | None, tab: str) -> dict[str, Any]:
    if tab == "setup":
        return _setup(results)
    if tab == "requests":
        return {"page": request_rows.page(results.rows, stage.index if stage else None, request.GET, results.summary)}
    if tab == "latency":
        metric = request.GET.get("metric", "")
        metric = metric if metric in LATENCIES else LATENCIES[0]
        return {
            "metric": metric,
            "metric_help": BY_KEY[metric].help,
            "latencies": LATENCY_LABELS,
            "percentiles": result_tables.percentiles(results, metric),
        }
    if stage is None:
        return {}
    if tab == "energy":
        return run_energy.context(results, stage, request.GET)
    if tab == "server":
        rooflines = [run_roofline.roofline(results.run, item) for item in results.stages]
        return {"server": server.account(results, stage), "rooflines": rooflines}
    return run_pool_cost.context(results, stage, request.GET) if tab == "cost" else {}


def _setup(results: RunResults) -> dict[str, Any]:
    try:
        command = bench_command(results.run.spec)
    except SpecError as error:
        command = f"# This specification is of another version: {error}"
    return {"command": command, "facts": result_tables.setup(results.run), "clients": result_tables.clients(results)}


def progress_context(run: Run) -> dict[str, Any]:
    progress: Mapping[str, Any] = run.progress
    fraction = progress.get("fraction")
    return {
        "progress": progress,
        "phase": PHASES.get(progress.get("phase", ""), "Working."),
        "percent": None if fraction is None else round(100 * fraction, 1),
        "stage_number": (progress.get("stage") or 0) + 1,
        "cancelling": run.cancel_requested_at is not None,
    }


@login_required
def progress(request: Request, pk: int) -> HttpResponse:
    """What moves on the page of a queued or running run; when its state changed, the whole page is asked for anew."""
    found = _run(pk)
    if found.status != request.GET.get("status"):
        return HttpResponse(headers={"HX-Refresh": "true"})
    context: dict[str, Any] = {"run": found}
    if found.status == Run.Status.QUEUED:
        return render(request, "run/waits.html", context | {"waits": waits_for(found)})
    return render(request, "run/progress.html", context | progress_context(found))


@login_required
def chart(request: Request, pk: int, name: str) -> HttpResponse:
    """A chart as JSON: figure (null when there is nothing to draw), table, note."""
    made = _chart(RunResults(_run(pk)), name, request.GET) or charts.NOTHING
    return JsonResponse(made.to_json(), json_dumps_params={"allow_nan": False})


def _chart(results: RunResults, name: str, query: Mapping[str, str]) -> charts.Chart | None:
    if name not in CHARTS:
        raise Http404(f"There is no chart called {name}.")
    stage = results.chosen(query.get("stage", ""))
    if name == "live":
        asked = query.get("after", "")
        after = float(asked) if _is_number(asked) else -1.0
        return charts.live([point for point in results.run.progress_series if point.get("t_s", 0) > after])
    if name == "timeline":
        index = stage.index if stage else request_rows.first_stage(results.rows)
        if results.rows is None or index is None:
            return None
        return request_timeline(results.rows, index, results.power, results.devices, results.modelled_devices)
    if name == "server":
        return server.strips(results, stage) if stage else None
    if name == "energy":
        return account_charts.ledger_bars(stage.stage.energy) if stage and stage.stage.energy else None
    if name == "power":
        return run_energy.strip(results, stage) if stage else None
    if name == "carbon":
        return (
            account_charts.carbon_by_region(*run_carbon.places(results, stage, query.get("pricing", "")))
            if stage
            else None
        )
    if name == "water":
        return (
            account_charts.water_by_region(*run_carbon.places(results, stage, query.get("pricing", "")))
            if stage
            else None
        )
    if name == "cost":
        cost = run_cost.RunCost(results, run_cost.choice(query))
        return account_charts.cost_lines(cost, stage) if stage else None
    return _stages_chart(results, name, query.get("metric", ""))


def _stages_chart(results: RunResults, name: str, metric: str) -> charts.Chart | None:
    """A chart over all stages."""
    points = [item.point(_stage_href(results.run, item)) for item in results.stages]
    if name == "load":
        over = metric if metric in (*LATENCIES, "interactivity_tokens_per_s") else "e2e_ms"
        return charts.throughput_against_latency(points, over, [item.interval(over, "p50") for item in results.stages])
    latency = metric if metric in LATENCIES else LATENCIES[0]
    draw = charts.ecdf if name == "ecdf" else charts.percentiles_by_stage
    return draw(points, latency)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _stage_href(run: Run, stage: StageResults) -> str:
    return f"{run.get_absolute_url()}?{urlencode({'stage': stage.index})}"


@login_required
def raw_file(request: Request, pk: int, name: str) -> FileResponse:
    """requests.parquet, power.parquet or server.parquet as it was stored."""
    found = _run(pk)
    file = {"requests": found.requests_file, "power": found.power_file, "server": found.server_file}.get(name)
    if file is None or not file.name or not file.storage.exists(file.name):
        raise Http404(f"Run {pk} keeps no {name} rows.")
    return FileResponse(file.open("rb"), as_attachment=True, filename=f"run-{pk}-{name}.parquet")


@login_required
@require_POST
def again(request: Request, pk: int) -> HttpResponseRedirect:
    """A new run of the same benchmark, as the benchmark is now."""
    benchmark = _run(pk).benchmark
    new = start(request, benchmark) if benchmark else None
    return redirect("run", pk=new.pk if new else pk)


@login_required
@require_POST
def price_again(request: Request, pk: int) -> HttpResponseRedirect:
    """Puts prices and factors of another day beside those that the run was queued with; changes nothing else."""
    found = _run(pk)
    try:
        day = date.fromisoformat(request.POST.get("day", ""))
    except ValueError:
        messages.error(request, "Not counted again. Give a day such as 2026-11-29.")
        return redirect(f"{found.get_absolute_url()}?tab=cost#tab")
    made = pricing.price_again(found, day, request.user)
    messages.success(request, f"Counted again with what holds on {day}. The numbers of the run's own day stay beside.")
    return redirect(f"{found.get_absolute_url()}?tab=cost&pricing={made.pk}#tab")


@staff_required
@require_POST
def add_power(request: Request, pk: int) -> HttpResponseRedirect:
    """Power that was kept elsewhere: an uploaded log, or a question to Prometheus. Staff only: it changes the run."""
    found = _run(pk)
    log = request.FILES.get("log")
    try:
        if isinstance(log, UploadedFile):
            afterwards.add_log(found, log.chunks(), request.POST.get("zone", ""))
        else:
            step = request.POST.get("step_s", "")
            url, query = request.POST.get("url", "").strip(), request.POST.get("query", "").strip()
            afterwards.add(found, Prometheus(url=url, query=query, step_s=float(step) if _is_number(step) else 1.0))
    except afterwards.NoPower as error:
        messages.error(request, f"Nothing was changed. {sentence(str(error))}")
    else:
        messages.success(request, "The energy of this run was counted anew with the power that was added.")
    return redirect(f"{found.get_absolute_url()}?tab=energy#tab")
