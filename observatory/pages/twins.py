"""Every page has twins: the same path with .json or .csv gives the same content for programs."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.urls import URLPattern, path

from observatory.pages.access import View
from observatory.reports.sheets import Sheet, response

Row = Mapping[str, Any]


def paths(route: str, view: View, name: str, data_route: str = "") -> list[URLPattern]:
    """The page at ``route``, called ``name``, and its twins, called ``name-json`` and ``name-csv``.

    The view takes ``form``: "html" (default), "json" or "csv", and ends with ``answer``.
    """
    base = data_route or route
    return [
        path(route, view, name=name),
        *(path(f"{base}.{form}", view, {"form": form}, name=f"{name}-{form}") for form in ("json", "csv")),
    ]


def answer(
    request: HttpRequest,
    form: str,
    template: str,
    context: Mapping[str, Any],
    *,
    rows: Callable[[], Iterable[Row]],
    columns: Iterable[str] = (),
    data: Callable[[], Any] | None = None,
    sheet: Callable[[], Sheet] | None = None,
) -> HttpResponseBase:
    """The page in the form asked for.

    JSON is ``data``, by default the rows. CSV is ``sheet``, by default the rows under ``columns`` or those of the
    first row.
    """
    if form == "json":
        return JsonResponse(data() if data else {"rows": list(rows())}, json_dumps_params={"allow_nan": False})
    if form == "csv":
        return response(sheet() if sheet else _sheet(rows(), tuple(columns)), request.path.rsplit("/", 1)[-1])
    return render(request, template, dict(context))


def _sheet(rows: Iterable[Row], columns: tuple[str, ...]) -> Sheet:
    listed = list(rows)
    return Sheet(columns or tuple(listed[0] if listed else ()), listed)


def facts(item: Any, columns: Mapping[str, str]) -> Row:
    """A row of ``item``: each column is found by a dotted path through attributes and dictionaries, null on the way."""
    return {name: _find(item, path) for name, path in columns.items()}


def _find(item: Any, path: str) -> Any:
    for step in path.split("."):
        item = item.get(step) if isinstance(item, dict) else getattr(item, step, None)
    return float(item) if isinstance(item, Decimal) else item
