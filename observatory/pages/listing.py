"""Tables one can live in: what is shown, its order and its page are in the URL (``sort``, ``page``, ``per_page``)."""

from typing import Any

import django_tables2 as tables
from django.core.paginator import EmptyPage
from django.http import HttpRequest
from django.utils.safestring import SafeString

from observatory.pages.templatetags.numbers import missing, moment
from runners.metrics import significant

PER_PAGE = 50
PER_PAGE_MAX = 200


class Listing(tables.Table):  # type: ignore[misc]
    """The base of every table. ``title`` names it to screen readers."""

    title = "Table"

    def __init__(self, data: Any, **options: Any) -> None:
        super().__init__(data, **{"template_name": "table.html", "default": missing("not known"), **options})


class Number(tables.Column):  # type: ignore[misc]
    """A right-aligned fact, as exact as it is known; its unit stands in the head of the column."""

    def __init__(self, unit: str = "", **options: Any) -> None:
        super().__init__(attrs={"td": {"class": "number"}, "th": {"class": "number"}}, **options)
        self.unit = unit

    def render(self, value: Any) -> str:
        return f"{float(value):,.10g}".replace(",", "\u2009")


class Price(Number):
    """A sum of money, to three significant digits."""

    def render(self, value: Any) -> str:
        return significant(float(value))


class Moment(tables.Column):  # type: ignore[misc]
    """A point in time."""

    def __init__(self, **options: Any) -> None:
        super().__init__(attrs={"cell": {"class": "fit"}}, **options)

    def render(self, value: Any) -> SafeString:
        return moment(value)


def arrange(table: Listing, request: HttpRequest) -> Listing:
    """The table in the order and at the page that the URL asks for; a page past the end is the last one."""
    table.request = request
    order = request.GET.getlist(table.prefixed_order_by_field)
    if order:
        table.order_by = order
    per_page = min(_number(request, "per_page", PER_PAGE), PER_PAGE_MAX)
    try:
        table.paginate(page=_number(request, "page", 1), per_page=per_page)
    except EmptyPage:
        table.paginate(page=table.paginator.num_pages, per_page=per_page)
    return table


def _number(request: HttpRequest, name: str, default: int) -> int:
    text = request.GET.get(name, "")
    return int(text) or default if text.isascii() and text.isdigit() and len(text) < 10 else default
