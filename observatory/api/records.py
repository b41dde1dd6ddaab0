"""Reading, storing and removing rows, with the database's refusals put into words."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Model, ProtectedError, QuerySet

from observatory.api.errors import Fault, Problem, refused

M = TypeVar("M", bound=Model)


def get(found: QuerySet[M], pk: int) -> M:
    """The row, or Problem 404."""
    item = found.filter(pk=pk).first()
    if item is None:
        name = str(found.model._meta.verbose_name)
        raise Problem(404, "not_found", f"There is no {name} {pk}.", "Take an id from the list.")
    return item


def store(item: M, values: Mapping[str, Any], save: Callable[[M], None] = Model.save) -> M:
    """``item`` with the values, checked by the model's own rules and saved. Problem 422; 409 when a name is taken."""
    for name, value in values.items():
        if value is None and not getattr(item._meta.get_field(name), "null", True):
            raise refused([Fault(field=name, problem="It cannot be null; leave it out to keep what is there.")])
        setattr(item, name, value)
    try:
        item.full_clean()
        with transaction.atomic():
            save(item)
    except ValidationError as error:
        raise problem_of(error) from None
    except RecursionError:
        raise refused([Fault(field="", problem="It is nested too deeply.")]) from None
    except IntegrityError:
        raise _taken([]) from None
    return item


def remove(item: Model) -> None:
    """Problem 409 while other rows need it."""
    try:
        item.delete()
    except ProtectedError as error:
        needs = sorted({str(other._meta.verbose_name_plural) for other in error.protected_objects})
        raise Problem(
            409,
            "in_use",
            f"{item} is still used by {' and '.join(needs)}.",
            f"Delete these {' and '.join(needs)} first, or keep it: results stay tied to what they measured.",
        ) from None


def problem_of(error: ValidationError) -> Problem:
    """422 with the fields, or 409 when a name is taken."""
    faults = [
        Fault(field="" if name == NON_FIELD_ERRORS else name, problem=" ".join(item.messages))
        for name, items in error.error_dict.items()
        for item in items
    ]
    if all(item.code in ("unique", "unique_together") for items in error.error_dict.values() for item in items):
        return _taken(faults)
    return refused(faults)


def _taken(faults: list[Fault]) -> Problem:
    return Problem(409, "name_taken", "There is one of that name already.", "Choose another name.", faults)


def exact(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """Prices as the decimals that were written, not as the nearest binary fractions."""
    found = {name: Decimal(str(values[name])) for name in names if values.get(name) is not None}
    return {**values, **found}
