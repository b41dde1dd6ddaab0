from datetime import datetime
from typing import Annotated, Any, Literal

from ninja import Field, PatchDict, Query, Router, Schema, Status
from pydantic import StringConstraints

from observatory.api.auth import Request, require_staff
from observatory.api.records import exact, get, remove, store
from observatory.api.shapes import (
    BAD_BODY,
    CONFLICT,
    ERRORS,
    NOT_FOUND,
    STAFF,
    Input,
    Line,
    Listed,
    NotNegative,
    Page,
    PathKey,
    page_of,
)
from observatory.catalog.models import MAX_PEM, Endpoint
from runners.spec import Dialect

router = Router(tags=["endpoints"])

RATES = ("input_usd_per_mtok", "output_usd_per_mtok")


Pem = Annotated[str, StringConstraints(max_length=MAX_PEM, pattern=r"^[^\x00]*$")]
Rate = Annotated[NotNegative | None, Field(le=1e6, description="Instead of a list price; at most 9 decimals")]


class EndpointIn(Input):
    name: Annotated[Line, Field(min_length=1, max_length=100)]
    url: Annotated[
        Line, Field(description="Base address, such as http://gpu-1:8000; empty where there is a recipe")
    ] = ""
    model: Annotated[
        Line, Field(max_length=200, description="Model name as the server expects it; empty: as the recipe says")
    ] = ""
    recipe: Annotated[
        dict[str, Any],
        Field(
            description="How a worker starts the engine for each run (docs/engines.md); empty: a server that others run"
        ),
    ] = {}
    dialect: Annotated[Dialect, Field(strict=False)] = Dialect.OPENAI_CHAT
    api_key: Annotated[Line, Field(description="Write-only; only its last four characters are ever shown")] = ""
    api_key_header: Annotated[
        Line, Field(max_length=200, description='Such as x-api-key, or "Authorization: Token"; empty: by the dialect')
    ] = ""
    extra_headers: Annotated[dict[Line, Line], Field(description="Sent with every request; no secrets")] = {}
    extra_body: Annotated[dict[str, Any], Field(description="Fields of every body; they are stored and shown")] = {}
    ca_pem: Annotated[Pem, Field(description="Authorities to trust instead of the system's, PEM")] = ""
    client_pem: Annotated[
        Pem, Field(description="Write-only: a client certificate with its key behind it, unencrypted, PEM")
    ] = ""
    proxy: Annotated[Line, Field(description="Such as http://proxy:3128; tunnels with CONNECT")] = ""
    metrics_url: Annotated[Line, Field(description="The server's metrics page; empty: /metrics of the address")] = ""
    billing: Annotated[
        Literal["unsaid", "machine", "tokens", "free"],
        Field(description="How it is paid: by the hour, by the token, not at all; unsaid: by its address and model"),
    ] = "unsaid"
    price_provider: Annotated[Line, Field(max_length=60, description="In the price list, such as openai")] = ""
    price_model: Annotated[Line, Field(max_length=200, description="In the price list; empty: the model")] = ""
    input_usd_per_mtok: Rate = None
    output_usd_per_mtok: Rate = None


class EndpointOut(Schema):
    id: int
    name: str
    url: str
    model: str
    dialect: str
    recipe: dict[str, Any]
    api_key_hint: str
    api_key_header: str
    extra_headers: dict[str, str]
    extra_body: dict[str, Any]
    ca_pem: str
    client_hint: str
    proxy: str
    metrics_url: str
    billing: str
    price_provider: str
    price_model: str
    input_usd_per_mtok: float | None
    output_usd_per_mtok: float | None
    probe: Any
    probed_at: datetime | None
    created_at: datetime


@router.get("", summary="All endpoints", response={200: Listed[EndpointOut], **ERRORS})
def endpoints(request: Request, page: Query[Page]) -> Any:
    return page_of(Endpoint.objects.all(), page)


@router.post("", summary="Make an endpoint", response={201: EndpointOut, **ERRORS, **STAFF, **CONFLICT, **BAD_BODY})
def create_endpoint(request: Request, payload: EndpointIn) -> Any:
    """Staff only."""
    require_staff(request)
    return Status(201, store(Endpoint(created_by=request.auth), exact(payload.model_dump(), *RATES)))


@router.get("/{key}", summary="One endpoint", response={200: EndpointOut, **ERRORS, **NOT_FOUND})
def endpoint(request: Request, key: PathKey) -> Any:
    return get(Endpoint.objects.all(), key)


@router.patch(
    "/{key}",
    summary="Change an endpoint",
    response={200: EndpointOut, **ERRORS, **STAFF, **NOT_FOUND, **CONFLICT, **BAD_BODY},
)
def change_endpoint(request: Request, key: PathKey, payload: PatchDict[EndpointIn]) -> Any:
    """Staff only. What is left out stays; an empty api_key or client_pem removes it. A url on another scheme, host or
    port, another proxy or ca_pem needs an api_key beside it where one is stored.
    """
    require_staff(request)
    found = get(Endpoint.objects.all(), key)
    found.key_entered = "api_key" in payload
    return store(found, exact(payload, *RATES))


@router.delete("/{key}", summary="Delete an endpoint", response={204: None, **ERRORS, **STAFF, **NOT_FOUND, **CONFLICT})
def delete_endpoint(request: Request, key: PathKey) -> Any:
    """Staff only."""
    require_staff(request)
    remove(get(Endpoint.objects.all(), key))
    return Status(204, None)
