"""Accelerators and sites: what the catalog knows, for reading."""

from datetime import date
from typing import Any

from ninja import Query, Router, Schema

from observatory.api.auth import Request
from observatory.api.records import get
from observatory.api.shapes import ERRORS, NOT_FOUND, Listed, Page, PathKey, page_of
from observatory.catalog.models import Accelerator, EmbodiedFactors, Site, today

embodied_router = Router(tags=["accelerators"])
accelerators_router = Router(tags=["accelerators"])
sites_router = Router(tags=["sites"])


class PriceOut(Schema):
    """Of one accelerator, from a day on: rent for an hour, or purchase."""

    provider: str
    kind: str
    effective_from: date
    usd_per_hour: float | None
    purchase_usd: float | None
    note: str
    source: str


class AcceleratorOut(Schema):
    """Peaks are dense, per accelerator; null is unknown."""

    id: int
    slug: str
    name: str
    vendor: str
    arch: str
    form_factor: str
    memory_gb: float | None
    mem_bandwidth_gb_s: float | None
    bf16_dense_tflops: float | None
    fp8_dense_tflops: float | None
    int8_dense_tops: float | None
    fp4_dense_tflops: float | None
    tdp_w: float | None
    provisioned_kw: float | None
    scaleup_gb_s: float | None
    scaleup_tech: str
    measured_bf16_tflops: float | None
    confidence: str
    note: str
    source: str
    provisioned_source: str
    prices: list[PriceOut]


class SiteOut(Schema):
    """With the factors of today; null is unknown. Grid: location based, and market based after contracts."""

    id: int
    slug: str
    name: str
    provider: str
    region: str
    pue: float | None
    pue_low: float | None
    pue_high: float | None
    wue_l_per_kwh: float | None
    electricity_usd_per_kwh: float | None
    grid_g_per_kwh: float | None
    grid_market_g_per_kwh: float | None
    grid_l_per_kwh: float | None
    effective_from: date | None
    note: str | None
    source: str | None


class EmbodiedOut(Schema):
    """Carbon of making, kg CO2e, from a day on; of one accelerator, or of all that have no row of their own (null)."""

    id: int
    accelerator_id: int | None
    effective_from: date
    accelerator_made_kg: float
    server_made_kg: float
    accelerators_per_server: float
    lifetime_years: float
    note: str
    source: str


@embodied_router.get("", summary="Carbon of making hardware, by day", response={200: Listed[EmbodiedOut], **ERRORS})
def embodied(request: Request, page: Query[Page]) -> Any:
    """Of the rows of an accelerator the latest that has begun holds."""
    return page_of(EmbodiedFactors.objects.all(), page)


@accelerators_router.get("", summary="Accelerators with their prices", response={200: Listed[AcceleratorOut], **ERRORS})
def accelerators(request: Request, page: Query[Page]) -> Any:
    return page_of(Accelerator.objects.prefetch_related("prices"), page)


@accelerators_router.get(
    "/{key}", summary="One accelerator with its prices", response={200: AcceleratorOut, **ERRORS, **NOT_FOUND}
)
def accelerator(request: Request, key: PathKey) -> Any:
    return get(Accelerator.objects.prefetch_related("prices"), key)


@sites_router.get("", summary="Sites with the factors of today", response={200: Listed[SiteOut], **ERRORS})
def sites(request: Request, page: Query[Page]) -> Any:
    return page_of(Site.objects.on(today()), page)


@sites_router.get(
    "/{key}", summary="One site with the factors of today", response={200: SiteOut, **ERRORS, **NOT_FOUND}
)
def site(request: Request, key: PathKey) -> Any:
    return get(Site.objects.on(today()), key)
