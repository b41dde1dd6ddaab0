"""How cases of the self-proof look."""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from urllib.parse import urlencode

from django import template

register = template.Library()


@register.filter
def as_query(inputs: Mapping[str, str]) -> str:
    """Inputs of a calculator as its page takes them."""
    return urlencode(inputs)


@register.filter
def short(value: str | Decimal | None) -> str:
    """A number with seven significant digits at most; text as it is; "unknown" for what has no value."""
    if value is None:
        return "unknown"
    try:
        return f"{float(Decimal(str(value))):.7g}"
    except (InvalidOperation, OverflowError):
        return str(value)


@register.filter
def off_by(difference: Decimal | None) -> str:
    """A difference in two significant digits; nothing where there is none."""
    return "" if difference is None else f"{float(difference):.2g}"
