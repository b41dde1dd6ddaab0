"""What all addresses share: kinds of values, pages of a list, errors in the description of the API."""

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from django.db.models import QuerySet
from ninja import Path, Schema
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, ConfigDict, Field, StringConstraints

from observatory.api.errors import Error

BIGGEST_ID = 2**63 - 1
_NO_NUL = r"^[^\x00]*$"

Key = Annotated[int, Field(ge=1, le=BIGGEST_ID)]
PathKey = Annotated[int, Path(ge=1, le=BIGGEST_ID)]
Count = Annotated[int, Field(ge=0, le=2_147_483_647)]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Line = Annotated[str, StringConstraints(max_length=500, pattern=_NO_NUL)]

ERRORS = {401: Error, 422: Error, 429: Error}
NOT_FOUND = {404: Error}
CONFLICT = {409: Error}
STAFF = {403: Error}
BAD_BODY = {400: Error}


def _text_of_time(value: Any) -> Any:
    if isinstance(value, str) and "-" not in value[1:]:
        raise ValueError("give a date and time such as 2026-11-12T09:30:00Z")
    return value


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("give a year between 2 and 9998") from None


#: A moment with its offset from UTC. (pydantic alone would also take bare numbers, as seconds since 1970.)
Instant = Annotated[AwareDatetime, BeforeValidator(_text_of_time), AfterValidator(_in_utc)]


class Input(Schema):
    """A body. Strict: a typo in a name or a number in quotes is an error, not a default."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Page(Schema):
    """Which part of a list."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    offset: Annotated[int, Field(ge=0, le=BIGGEST_ID // 2)] = 0


T = TypeVar("T")


class Listed(Schema, Generic[T]):
    """One page of a list, and how long the whole list is."""

    items: list[T]
    count: int


def page_of(found: QuerySet[T], page: Page) -> dict[str, object]:  # type: ignore[type-var]
    return {"items": list(found[page.offset : page.offset + page.limit]), "count": found.count()}
