from typing import Annotated, Any

from django.db.models import QuerySet
from ninja import Field, PatchDict, Query, Router, Schema, Status

from observatory.api.auth import Request, require_staff
from observatory.api.records import exact, get, remove, store
from observatory.api.shapes import (
    BAD_BODY,
    CONFLICT,
    ERRORS,
    NOT_FOUND,
    STAFF,
    Count,
    Input,
    Key,
    Line,
    Listed,
    NotNegative,
    Page,
    PathKey,
    Positive,
    page_of,
)
from observatory.catalog import pools
from observatory.catalog.models import Deployment, Pool

router = Router(tags=["deployments"])

Short = Annotated[Line, Field(max_length=50)]


class PoolIn(Input):
    """Accelerators that do the same part of the work. The only pool needs no name."""

    name: Annotated[Line, Field(max_length=40, description="Such as prefill or decode")] = ""
    accelerator_id: Key
    count: Count = 1
    gpus: Annotated[
        Line, Field(max_length=1000, description="Such as 0,1 or GPU-1a2b or gpu-1/*; one pool may leave it empty")
    ] = ""
    usd_per_hour: Annotated[
        NotNegative | None, Field(description="Its part of the price; of all pools or of none; at most 4 decimals")
    ] = None


class PoolOut(Schema):
    name: str
    accelerator_id: int
    count: int
    gpus: str
    usd_per_hour: float | None


class DeploymentIn(Input):
    name: Annotated[Line, Field(min_length=1, max_length=100)]
    endpoint_id: Key
    engine: Short = ""
    engine_version: Short = ""
    precision: Short = ""
    tensor_parallel: Count = 1
    pipeline_parallel: Count = 1
    replicas: Count = 1
    pools: Annotated[
        list[PoolIn], Field(max_length=16, description="Its accelerators; several where they share the work")
    ] = []
    runs_on_cpu: bool = False
    accelerator_group: Annotated[Line, Field(max_length=100, description="Runs that share one never overlap")] = ""
    usd_per_hour: Annotated[NotNegative | None, Field(description="Of the whole deployment; at most 4 decimals")] = None
    price_source: Annotated[Line, Field(max_length=200)] = ""
    site_id: Key | None = None
    power_hosts: Annotated[
        Line, Field(max_length=300, description="Machines whose power workers sample it, separated by commas")
    ] = ""
    gpu_shared: Annotated[bool, Field(description="Others are served on the same GPUs")] = False
    queries_per_hour: Annotated[Positive | None, Field(description="Traffic, for energy with idle time between")] = None


class DeploymentOut(Schema):
    id: int
    name: str
    endpoint_id: int
    engine: str
    engine_version: str
    precision: str
    tensor_parallel: int
    pipeline_parallel: int
    replicas: int
    pools: list[PoolOut]
    runs_on_cpu: bool
    accelerator_group: str
    hardware: str
    usd_per_hour: float | None
    price_source: str
    site_id: int | None
    power_hosts: str
    gpu_shared: bool
    queries_per_hour: float | None

    @staticmethod
    def resolve_pools(found: Deployment) -> list[Pool]:
        return found.pool_list


def _all() -> QuerySet[Deployment]:
    return Deployment.objects.prefetch_related("pools__accelerator")


def _store(item: Deployment, values: dict[str, Any]) -> Deployment:
    """With its pools; those that are stored stay where none are given."""
    given = values.pop("pools", None)
    found = item.pool_list if given is None else [Pool(**exact(one, "usd_per_hour")) for one in given]

    def save(deployment: Deployment) -> None:
        pools.clean(found)
        pools.check(deployment, found)
        pools.save(deployment, found)

    store(item, exact(values, "usd_per_hour"), save)
    return get(_all(), item.pk)


@router.get("", summary="All deployments", response={200: Listed[DeploymentOut], **ERRORS})
def deployments(request: Request, page: Query[Page]) -> Any:
    return page_of(_all(), page)


@router.post("", summary="Make a deployment", response={201: DeploymentOut, **ERRORS, **STAFF, **CONFLICT, **BAD_BODY})
def create_deployment(request: Request, payload: DeploymentIn) -> Any:
    """Staff only."""
    require_staff(request)
    return Status(201, _store(Deployment(), payload.model_dump()))


@router.get("/{key}", summary="One deployment", response={200: DeploymentOut, **ERRORS, **NOT_FOUND})
def deployment(request: Request, key: PathKey) -> Any:
    return get(_all(), key)


@router.patch(
    "/{key}",
    summary="Change a deployment",
    response={200: DeploymentOut, **ERRORS, **STAFF, **NOT_FOUND, **CONFLICT, **BAD_BODY},
)
def change_deployment(request: Request, key: PathKey, payload: PatchDict[DeploymentIn]) -> Any:
    """Staff only. What is left out stays."""
    require_staff(request)
    return _store(get(_all(), key), dict(payload))


@router.delete(
    "/{key}", summary="Delete a deployment", response={204: None, **ERRORS, **STAFF, **NOT_FOUND, **CONFLICT}
)
def delete_deployment(request: Request, key: PathKey) -> Any:
    """Staff only."""
    require_staff(request)
    remove(get(_all(), key))
    return Status(204, None)
