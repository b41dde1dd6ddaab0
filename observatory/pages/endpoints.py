"""Endpoints: list and page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from observatory.catalog.models import Endpoint
from observatory.pages.access import Request
from observatory.pages.twins import answer


@login_required
def endpoints(request: Request, form: str = "html") -> HttpResponse:
    """All endpoints, by name."""
    found = Endpoint.objects.all()
    return answer(
        request,
        form,
        "catalog/endpoints.html",
        {"endpoints": found},
        rows=lambda: [{"id": endpoint.pk} for endpoint in found],
    )


@login_required
def endpoint(request: Request, pk: int, form: str = "html") -> HttpResponse:
    """One endpoint."""
    found = get_object_or_404(Endpoint, pk=pk)
    return answer(request, form, "catalog/endpoint.html", {"endpoint": found}, rows=lambda: [{"id": found.pk}])
