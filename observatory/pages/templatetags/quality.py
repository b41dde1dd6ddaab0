"""How shares with their intervals look on the pages of quality."""

from collections.abc import Mapping
from typing import Any

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from observatory.pages.quality_words import percent
from observatory.pages.templatetags.numbers import missing
from observatory.quality.models import QualityResult
from runners.metrics import significant

register = template.Library()


@register.simple_tag
def share(part: Mapping[str, Any]) -> SafeString:
    """A share with its interval and n."""
    return percent(part["share"], part["low"], part["high"], part["n"])


@register.simple_tag
def accuracy(found: QualityResult) -> SafeString:
    """That of a result with its interval and n."""
    return percent(found.value, found.low, found.high, found.n)


@register.simple_tag
def mean(part: Mapping[str, Any]) -> SafeString:
    """A mean with its interval."""
    if part["low"] is None:
        return format_html('<span class="number">{}</span>', significant(part["mean"]))
    between = f"({significant(part['low'])} to {significant(part['high'])})"
    return format_html(
        '<span class="number">{}</span> <small class="muted nowrap">{}</small>', significant(part["mean"]), between
    )


@register.simple_tag
def difference(flips: Mapping[str, Any]) -> SafeString:
    """A difference of two accuracies in percentage points, with its interval."""
    if flips["difference"] is None:
        return missing("no pairs")
    value, low, high = (f"{100 * flips[key]:+.1f}".replace("-", "−") for key in ("difference", "low", "high"))
    return format_html(
        '<span class="number">{} points</span> <small class="muted">({} to {})</small>', value, low, high
    )


@register.filter
def figures(value: float) -> str:
    """Three significant digits."""
    return significant(value)
