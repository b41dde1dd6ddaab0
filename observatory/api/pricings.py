"""What a stored run is counted with: as it was queued, and again with another day's prices and factors."""

from dataclasses import asdict
from datetime import date
from typing import Annotated, Any

from ninja import Field, Router, Schema, Status
from pydantic import BeforeValidator

from observatory.api.auth import Request
from observatory.api.records import get
from observatory.api.runs import visible_runs
from observatory.api.shapes import BAD_BODY, ERRORS, NOT_FOUND, Input, PathKey
from observatory.runs import pricing

router = Router(tags=["runs"])


def _day(value: Any) -> Any:
    """Of text, as JSON has no days; what is none is left for the model to refuse."""
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        return value


class PricingIn(Input):
    day: Annotated[date, BeforeValidator(_day), Field(description="Such as 2026-11-29")]


class PricingOut(Schema):
    """``id`` is null for what the run was queued with; ``usd_per_hour_as_of`` is the day that its rent is of."""

    id: int | None
    day: date
    factors: dict[str, Any]


class PricingsOut(Schema):
    items: list[PricingOut]
    count: int


def _out(priced: pricing.Priced) -> dict[str, Any]:
    return {"id": priced.pk, "day": priced.day, "factors": asdict(priced.factors)}


@router.get(
    "/{key}/pricings", summary="Prices and factors of a run", response={200: PricingsOut, **ERRORS, **NOT_FOUND}
)
def pricings(request: Request, key: PathKey) -> Any:
    """Those that it was queued with first, then those of later counts."""
    found = pricing.pricings(get(visible_runs(), key))
    return {"items": [_out(item) for item in found], "count": len(found)}


@router.post(
    "/{key}/pricings",
    summary="Count a run again with another day's prices",
    response={201: PricingOut, **ERRORS, **NOT_FOUND, **BAD_BODY},
)
def price_again(request: Request, key: PathKey, payload: PricingIn) -> Any:
    """Stands beside what the run was queued with; replaces nothing. The rent is the deployment's of today."""
    run = get(visible_runs(), key)
    made = pricing.price_again(run, payload.day, request.auth)
    return Status(201, _out(next(item for item in pricing.pricings(run) if item.pk == made.pk)))
