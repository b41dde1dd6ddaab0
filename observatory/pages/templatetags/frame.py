"""The frame of every page: theme, navigation, the menu of twins."""

import re

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

#: The names of pages that belong to an entry of the top bar, beside those that begin with it.
_FAMILIES = {
    "overview": ("overview", "welcome"),
    "runs": ("run",),
    "compare": ("compare",),
    "endpoints": ("endpoint", "deployment", "hardware", "site", "embodied"),
    "benchmarks": ("benchmark", "schedule"),
    "studies": ("stud", "trial"),
    "quality": ("quality",),
    "theory": ("theory",),
}


#: Characters that turn the order of what stands around them.
_DIRECTIONS = re.compile(r"[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@register.filter(is_safe=True)
def undirected(text: str) -> str:
    """Without the characters that set a direction: a title, where no <bdi> can keep them in, is read as it is."""
    return _DIRECTIONS.sub("", text)


@register.simple_tag(takes_context=True)
def theme(context: Context) -> str:
    """The theme that the user chose: "light", "dark", or nothing for the system's own."""
    request = context.get("request")
    chosen = request.COOKIES.get("theme", "") if request else ""
    return chosen if chosen in ("light", "dark") else ""


@register.simple_tag(takes_context=True)
def nav(context: Context, name: str, label: str, family: str = "") -> SafeString:
    """A link to the page ``name``, marked as current on it and on the pages of its family."""
    match = getattr(context.get("request"), "resolver_match", None)
    here = (match.url_name or "") if match else ""
    current = here.startswith((family,) if family else _FAMILIES[name])
    mark = format_html(' aria-current="{}"', "page" if here == name else "true") if current else ""
    return format_html('<a href="{}" data-go="{}"{}>{}</a>', reverse(name), name, mark, label)


@register.inclusion_tag("twins.html", takes_context=True)
def twins(context: Context) -> dict[str, str]:
    """The menu with the .json and .csv twins of this page, under the same query."""
    request = context["request"]
    path = "/overview" if request.path == "/" else request.path
    query = f"?{request.GET.urlencode()}" if request.GET else ""
    return {"json": f"{path}.json{query}", "csv": f"{path}.csv{query}"}


@register.simple_tag(takes_context=True)
def query(context: Context, **changes: object) -> str:
    """This page's query string with changes: an empty value takes the key out. Begins with "?"."""
    parameters = context["request"].GET.copy()
    for key, value in changes.items():
        parameters.pop(key, None)
        if value not in (None, ""):
            parameters[key] = str(value)
    return f"?{parameters.urlencode()}"
