"""How formulas and results of calculators look."""

import re
from typing import Any

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from observatory.pages.templatetags.numbers import missing
from observatory.theory.fields import Output, worded

register = template.Library()

_RAISED = re.compile(r"\^(?:\(([^()]*)\)|([\w.]+))")
_LOWERED = re.compile(r"_([^\W_]+(?:,[^\W_]+)*)")


@register.filter
def formula(line: str) -> SafeString:
    """``t_mem = 2^(b-1)`` with its indices lowered and its powers raised."""
    raised = _RAISED.sub(lambda found: f"<sup>{found[1] or found[2]}</sup>", escape(line))
    return mark_safe(_LOWERED.sub(r"<sub>\1</sub>", raised))  # noqa: S308  (escaped before)


@register.simple_tag
def outcome(value: Any, about: Output) -> SafeString:
    """An output with its unit; a dash with the reason where there is none."""
    if value is None:
        return missing(about.help or "these inputs give none")
    if isinstance(value, str | bool):
        return format_html("{}", worded(value, about))
    unit = format_html('<span class="unit"> {}</span>', about.unit) if about.unit else ""
    return format_html('<span class="number">{}{}</span>', worded(value, about), unit)


@register.simple_tag
def cell(value: Any, about: Output) -> SafeString:
    """An output in a table whose header has the unit."""
    if value is None:
        return missing(about.help or "these inputs give none")
    return format_html('<span class="number">{}</span>', worded(value, about))


@register.simple_tag
def problem(worked: Any, name: str) -> str:
    """What is wrong with an input, or nothing."""
    return str(worked.words.get(name, ""))


@register.filter
def plain_number(value: float) -> str:
    """A number for programs, whatever the language of the page."""
    return repr(value)


@register.filter
def is_words(value: Any) -> bool:
    """Whether an output is text, which stands left, or a number, which stands right."""
    return isinstance(value, str | bool)
