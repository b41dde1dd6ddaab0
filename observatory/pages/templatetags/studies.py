"""Effects and intervals of a study in a table's cell."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from observatory.studies.findings import Effect, Word
from observatory.studies.statistics import Estimate
from observatory.studies.words import change, interval
from runners.metrics import display

register = template.Library()

_SIGNS = {
    Word.BETTER: "▲",
    Word.WORSE: "▼",
    Word.IDENTICAL: "=",
    Word.NO_MATTER: "=",
    Word.UNCLEAR: "=",
}


@register.simple_tag
def bounds(estimate: Estimate | None, unit: str) -> SafeString:
    """The interval of a mean; nothing where there is none."""
    if estimate is None or estimate.low is None or estimate.high is None:
        return SafeString("")
    low, high = (" ".join(display(bound, unit)).strip() for bound in (estimate.low, estimate.high))
    return format_html('<span class="small muted nowrap">{} to {}</span>', low, high)


@register.simple_tag
def effect(found: Effect, unit: str) -> SafeString:
    """Such as "▲ 62 % lower (58 % lower to 66 % lower): better"."""
    amount = change(found, unit) if found.estimate else ""
    spread = interval(found, unit) if found.estimate else ""
    reason = f": {found.reason}" if found.reason else ""
    words = f"{amount}{f' ({spread})' if spread else ''}: " if amount else ""
    return format_html("{} {}{}{}", _SIGNS.get(found.word, ""), words, found.word.value, reason)
