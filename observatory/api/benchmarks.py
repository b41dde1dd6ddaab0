from datetime import datetime
from typing import Annotated, Any

from ninja import Field, PatchDict, Query, Router, Schema, Status

from observatory.api.auth import Request
from observatory.api.errors import Fault, refused
from observatory.api.records import get, remove, store
from observatory.api.shapes import (
    BAD_BODY,
    CONFLICT,
    ERRORS,
    NOT_FOUND,
    Input,
    Key,
    Line,
    Listed,
    Page,
    PathKey,
    Positive,
    page_of,
)
from observatory.api.spec_schema import FormOf
from observatory.benchmarks.models import Benchmark
from observatory.runs import spec
from runners.spec import Load, SpecError, Workload

router = Router(tags=["benchmarks"])

WorkloadJSON = Annotated[
    dict[str, Any], FormOf(Workload), Field(description="What is sent; file names are those of workload files")
]
LoadJSON = Annotated[dict[str, Any], FormOf(Load), Field(description="When it is sent")]
#: Where a complaint of the specification belongs when it is not of the workload or load.
_FIELDS = {
    "shard.count": "load_hosts",
    "power.source": "power_source",
    "slo.ttft_ms": "slo_ttft_ms",
    "slo.tpot_ms": "slo_tpot_ms",
    "slo.e2e_ms": "slo_e2e_ms",
}


class BenchmarkIn(Input):
    """``workload`` and ``load`` have the form of a specification; what is left out is as usual there. Each level is a
    stage; a stage ends after ``requests`` or ``duration_s``, whichever comes first.
    """

    name: Annotated[Line, Field(min_length=1, max_length=100)]
    deployment_id: Key
    workload: WorkloadJSON = {}
    load: LoadJSON
    load_hosts: Annotated[int, Field(ge=1, le=256, description="Bench workers that carry the load together")] = 1
    slo_ttft_ms: Positive | None = None
    slo_tpot_ms: Positive | None = None
    slo_e2e_ms: Positive | None = None
    power_source: Annotated[
        Line, Field(min_length=1, max_length=20, description="auto, none, nvml, amd, xpu, rapl, hwmon, ipmi, estimate")
    ] = "auto"


class BenchmarkOut(Schema):
    id: int
    name: str
    deployment_id: int
    workload: WorkloadJSON
    load: LoadJSON
    load_hosts: int
    slo_ttft_ms: float | None
    slo_tpot_ms: float | None
    slo_e2e_ms: float | None
    power_source: str
    created_at: datetime


@router.get("", summary="All benchmarks", response={200: Listed[BenchmarkOut], **ERRORS})
def benchmarks(request: Request, page: Query[Page]) -> Any:
    return page_of(Benchmark.objects.all(), page)


@router.post("", summary="Make a benchmark", response={201: BenchmarkOut, **ERRORS, **CONFLICT, **BAD_BODY})
def create_benchmark(request: Request, payload: BenchmarkIn) -> Any:
    return Status(201, store(Benchmark(created_by=request.auth), payload.model_dump(), _save))


@router.get("/{key}", summary="One benchmark", response={200: BenchmarkOut, **ERRORS, **NOT_FOUND})
def benchmark(request: Request, key: PathKey) -> Any:
    return get(Benchmark.objects.all(), key)


@router.patch(
    "/{key}", summary="Change a benchmark", response={200: BenchmarkOut, **ERRORS, **NOT_FOUND, **CONFLICT, **BAD_BODY}
)
def change_benchmark(request: Request, key: PathKey, payload: PatchDict[BenchmarkIn]) -> Any:
    """What is left out stays; a workload or load that is sent replaces the whole one. Runs keep what they were asked at
    their time.
    """
    return store(get(Benchmark.objects.all(), key), payload, _save)


@router.delete("/{key}", summary="Delete a benchmark", response={204: None, **ERRORS, **NOT_FOUND, **CONFLICT})
def delete_benchmark(request: Request, key: PathKey) -> Any:
    remove(get(Benchmark.objects.all(), key))
    return Status(204, None)


def _save(item: Benchmark) -> None:
    """Only what a run could be made of is kept."""
    try:
        asked = spec.build(item).to_json()
    except SpecError as error:
        raise refused([_fault_of(error)]) from None
    item.workload, item.load = asked["workload"], asked["load"]
    item.save()


def _fault_of(error: SpecError) -> Fault:
    """The specification names its own path, such as load.levels; so does the API."""
    path, separator, problem = str(error).partition(": ")
    if not separator:
        return Fault(field="", problem=path)
    path = path.removeprefix("spec.")
    return Fault(field=_FIELDS.get(path, path), problem=problem)
