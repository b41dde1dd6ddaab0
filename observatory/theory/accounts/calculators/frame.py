"""What the declarations of accounts share."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import TypeVar

from observatory.theory.calculator import Fault, Refused, refuse
from runners.prices import Impossible

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741


def refusing(compute: Callable[[I], O]) -> Callable[[I], O]:
    """``compute`` with what a pure function finds impossible as a refusal."""

    @wraps(compute)
    def computed(inputs: I) -> O:
        try:
            return compute(inputs)
        except Impossible as error:
            raise Refused(Fault("", error.problem, error.fix)) from error

    return computed


def moment(day: str, field: str = "on") -> datetime | None:
    """Noon UTC of a day written as 2026-11-29; None for nothing. Raises Refused."""
    if not day:
        return None
    try:
        return datetime.strptime(day, "%Y-%m-%d").replace(hour=12, tzinfo=UTC)
    except ValueError:
        raise refuse(field, f'"{day}" is not a day.', "Write it as 2026-11-29.") from None
