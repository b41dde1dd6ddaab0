"""Every page has twins: the same path with .json or .csv gives the same content for programs."""

import csv
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import URLPattern, path

from observatory.pages.access import View

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
    data: Callable[[], Any] | None = None,
) -> HttpResponse:
    """The page in the form asked for. ``rows`` fill the CSV; ``data`` is the JSON, by default the rows."""
    if form == "json":
        return JsonResponse(data() if data else {"rows": list(rows())}, json_dumps_params={"allow_nan": False})
    if form == "csv":
        return csv_response(rows(), request.path.rsplit("/", 1)[-1])
    return render(request, template, dict(context))


def csv_response(rows: Iterable[Row], name: str) -> HttpResponse:
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    listed = list(rows)
    writer = csv.DictWriter(response, list(listed[0]) if listed else [])
    writer.writeheader()
    writer.writerows(listed)
    return response
