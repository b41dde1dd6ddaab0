from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import FileResponse
from ninja import Field, File, FilterLookup, FilterSchema, Form, Query, Router, Schema, Status
from ninja.files import UploadedFile

from observatory.api.auth import Request, require_staff
from observatory.api.errors import Fault, Problem, refused
from observatory.api.records import get
from observatory.api.shapes import (
    BAD_BODY,
    CONFLICT,
    ERRORS,
    NOT_FOUND,
    STAFF,
    Count,
    Input,
    Instant,
    Key,
    Line,
    Listed,
    Page,
    PathKey,
    page_of,
)
from observatory.benchmarks.models import Benchmark
from observatory.reports import raw
from observatory.runs import afterwards, dispatch, money, states
from observatory.runs.models import Measurement, Run
from runners.meters import Prometheus
from runners.metrics import BY_KEY
from runners.spec import SpecError

router = Router(tags=["runs"])

WAITS = "Queued, but the broker cannot be reached. Start it, or check REDIS_URL: then the run starts by itself."


class RunIn(Input):
    benchmark_id: Key
    confirm_usd: Annotated[
        Line, Field(max_length=30, description='The amount that a refusal asks for, such as "12.34"; else empty')
    ] = ""


class RunOut(Schema):
    id: int
    kind: Run.Kind
    benchmark_id: int | None
    benchmark: Annotated[str, Field(alias="asks", description="Or the task set of an evaluation")]
    deployment_id: int
    deployment: Annotated[str, Field(alias="deployment.name")]
    endpoint_id: int
    status: str
    trigger: str
    valid: bool | None
    reason_code: str
    reason: str
    queued_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    cancel_requested_at: datetime | None
    reserved_usd: float | None
    settled_usd: float | None
    progress: Any
    tags: Any


class StartedOut(RunOut):
    notice: str = ""


class StageOut(Schema):
    """planned = ok + failed + cancelled + not_sent."""

    index: int
    load_kind: str
    load_value: float
    repeat: int
    verdict: str
    reasons: Any
    planned: int
    ok: int
    failed: int
    cancelled: int
    not_sent: int
    failures: Any
    window_kind: str
    window_s: float | None
    energy: Any
    cost: Any


class RunDetailOut(RunOut):
    spec: Any
    setup: Any
    summary: Any
    definitions_version: int | None
    stages: list[StageOut]


class MeasurementOut(Schema):
    """``low`` and ``high`` bound the value (95 %) where they are known."""

    stage: Annotated[int, Field(alias="stage.index")]
    metric: str
    unit: str
    statistic: str
    value: float
    low: float | None
    high: float | None
    n: int | None
    mark: str

    @staticmethod
    def resolve_unit(item: Measurement) -> str:
        metric = BY_KEY.get(item.metric)
        return metric.unit if metric else ""


class RunFilter(FilterSchema):
    status: Run.Status | None = None
    trigger: Run.Trigger | None = None
    valid: bool | None = None
    kind: Run.Kind | None = None
    benchmark_id: Key | None = None
    deployment_id: Key | None = None
    endpoint_id: Key | None = None
    queued_from: Annotated[Instant | None, FilterLookup("queued_at__gte")] = None
    queued_before: Annotated[Instant | None, FilterLookup("queued_at__lt")] = None


class MeasurementFilter(FilterSchema):
    metric: Annotated[Line | None, Field(max_length=60)] = None
    statistic: Annotated[Line | None, Field(max_length=10)] = None
    stage: Annotated[Count | None, FilterLookup("stage__index")] = None


class RowsOut(Schema):
    """Raw rows as docs/result-files.md lists them. ``count`` is how many there are in all."""

    items: list[dict[str, Any]]
    count: int


def visible_runs() -> QuerySet[Run]:
    return Run.objects.select_related("benchmark", "deployment")


@router.get("", summary="Runs, with filters", response={200: Listed[RunOut], **ERRORS})
def runs(request: Request, filters: Query[RunFilter], page: Query[Page]) -> Any:
    """Newest first."""
    return page_of(filters.filter(visible_runs()), page)


@router.post("", summary="Start a run of a benchmark", response={201: StartedOut, **ERRORS, **NOT_FOUND, **BAD_BODY})
def start_run(request: Request, payload: RunIn) -> Any:
    """Queues a run of a benchmark. It starts when its endpoint is free; ``notice`` says what may hold it up."""
    benchmark = get(Benchmark.objects.all(), payload.benchmark_id)
    try:
        run = states.queue(benchmark, Run.Trigger.API, request.auth, payload.confirm_usd)
    except money.NotConfirmed as error:
        raise refused([Fault(field="confirm_usd", problem=str(error))]) from None
    except SpecError as error:
        raise refused([Fault(field="benchmark_id", problem=str(error))]) from None
    woken = dispatch.publish(run)
    started = StartedOut.from_orm(run)
    return Status(201, started.model_copy(update={"notice": "" if woken else WAITS}))


@router.get(
    "/{key}", summary="One run: status, progress, summary, stages", response={200: RunDetailOut, **ERRORS, **NOT_FOUND}
)
def run(request: Request, key: PathKey) -> Any:
    return get(visible_runs().prefetch_related("stages"), key)


@router.post(
    "/{key}/cancel",
    summary="Cancel a run; what was measured is kept",
    response={200: RunOut, **ERRORS, **NOT_FOUND, **CONFLICT},
)
def cancel_run(request: Request, key: PathKey) -> Any:
    """A queued run is cancelled at once, a running one within seconds, its partial results kept."""
    found = get(visible_runs(), key)
    if not states.request_cancel(found.pk):
        raise Problem(409, "ended", f"Run {key} has ended already.", "Nothing needs to be done; read its results.")
    found.refresh_from_db()
    return found


@router.get(
    "/{key}/measurements",
    summary="Numbers of a run with interval, n and mark",
    response={200: Listed[MeasurementOut], **ERRORS, **NOT_FOUND},
)
def measurements(request: Request, key: PathKey, filters: Query[MeasurementFilter], page: Query[Page]) -> Any:
    found = get(visible_runs(), key).measurements.select_related("stage").order_by("stage__index", "id")
    return page_of(filters.filter(found), page)


@router.get("/{key}/requests", summary="Raw rows of the requests", response={200: RowsOut, **ERRORS, **NOT_FOUND})
def request_rows(request: Request, key: PathKey, page: Query[Page]) -> Any:
    """A row per planned request."""
    return rows_of(get(visible_runs(), key), "requests_file", page)


@router.get("/{key}/power", summary="Raw samples of power", response={200: RowsOut, **ERRORS, **NOT_FOUND})
def power_rows(request: Request, key: PathKey, page: Query[Page]) -> Any:
    """A row per device and power sample."""
    return rows_of(get(visible_runs(), key), "power_file", page)


@router.get("/{key}/server", summary="Raw readings of the server", response={200: RowsOut, **ERRORS, **NOT_FOUND})
def server_rows(request: Request, key: PathKey, page: Query[Page]) -> Any:
    """A row per series and reading of the server's own metrics page."""
    return rows_of(get(visible_runs(), key), "server_file", page)


_PARQUET: dict[str, Any] = {
    "responses": {200: {"description": "Parquet", "content": {"application/vnd.apache.parquet": {}}}}
}


@router.get(
    "/{key}/requests.parquet",
    summary="requests.parquet as it was stored",
    response={**ERRORS, **NOT_FOUND},
    openapi_extra=_PARQUET,
)
def request_file(request: Request, key: PathKey) -> Any:
    """The stored file as it is."""
    return _file(get(visible_runs(), key), "requests_file", "requests")


class PrometheusIn(Input):
    """Each series of ``query`` (PromQL, watts) is a device."""

    url: Annotated[Line, Field(max_length=500)]
    query: Annotated[Line, Field(max_length=2000)]
    step_s: Annotated[float, Field(gt=0, le=3600)] = 1.0


@router.post(
    "/{key}/power/prometheus",
    summary="Give an ended run the power that Prometheus kept",
    response={200: RunDetailOut, **ERRORS, **STAFF, **NOT_FOUND, **BAD_BODY},
)
def add_prometheus(request: Request, key: PathKey, payload: PrometheusIn) -> Any:
    """Staff only. Its energy is counted anew; nothing else of the run changes."""
    require_staff(request)
    run = get(visible_runs(), key)
    return _added(lambda: afterwards.add(run, Prometheus(**payload.model_dump())), run, "query")


class LogIn(Input):
    zone: Annotated[Line, Field(max_length=60)] = "UTC"


@router.post(
    "/{key}/power/log",
    summary="Give an ended run the power that nvidia-smi logged",
    response={200: RunDetailOut, **ERRORS, **STAFF, **NOT_FOUND, **BAD_BODY},
)
def add_log(request: Request, key: PathKey, log: File[UploadedFile], about: Form[LogIn]) -> Any:
    """Staff only. The CSV of ``nvidia-smi --query-gpu=timestamp,uuid,name,power.draw --format=csv -lms 100``, its times
    local to ``zone``.
    """
    require_staff(request)
    run = get(visible_runs(), key)
    return _added(lambda: afterwards.add_log(run, log.chunks(), about.zone), run, "log")


def _added(add: Callable[[], None], run: Run, field: str) -> Run:
    try:
        add()
    except afterwards.NoPower as error:
        raise refused([Fault(field=error.field or field, problem=str(error))]) from None
    return get(visible_runs().prefetch_related("stages"), run.pk)


@router.get(
    "/{key}/power.parquet",
    summary="power.parquet as it was stored",
    response={**ERRORS, **NOT_FOUND},
    openapi_extra=_PARQUET,
)
def power_file(request: Request, key: PathKey) -> Any:
    """The stored file as it is."""
    return _file(get(visible_runs(), key), "power_file", "power")


@router.get(
    "/{key}/server.parquet",
    summary="server.parquet as it was stored",
    response={**ERRORS, **NOT_FOUND},
    openapi_extra=_PARQUET,
)
def server_file(request: Request, key: PathKey) -> Any:
    """The stored file as it is."""
    return _file(get(visible_runs(), key), "server_file", "server")


def rows_of(run: Run, name: str, page: Page) -> Any:
    try:
        items, count = raw.part(getattr(run, name), page.offset, page.limit)
    except raw.NoRows:
        raise _no_rows(run) from None
    return {"items": items, "count": count}


def _file(run: Run, field: str, name: str) -> FileResponse:
    try:
        stored = raw.opened(getattr(run, field))
    except raw.NoRows:
        raise _no_rows(run) from None
    return FileResponse(
        stored,
        as_attachment=True,
        filename=f"run-{run.pk}-{name}.parquet",
        content_type="application/vnd.apache.parquet",
    )


def _no_rows(run: Run) -> Problem:
    return Problem(
        404,
        "no_rows",
        f"No such raw rows are kept for run {run.pk} ({run.status}).",
        "Wait until the run has ended, or run it again; without a power source there are no power rows, "
        "and without a metrics page none of the server.",
    )
