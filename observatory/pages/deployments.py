"""Deployments: list and page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404

from observatory.catalog.models import Deployment
from observatory.pages.access import Request
from observatory.pages.twins import answer


@login_required
def deployments(request: Request, form: str = "html") -> HttpResponse:
    """All deployments, by name."""
    found = Deployment.objects.all()
    return answer(
        request,
        form,
        "catalog/deployments.html",
        {"deployments": found},
        rows=lambda: [{"id": deployment.pk} for deployment in found],
    )


@login_required
def deployment(request: Request, pk: int, form: str = "html") -> HttpResponse:
    """One deployment."""
    found = get_object_or_404(Deployment, pk=pk)
    return answer(request, form, "catalog/deployment.html", {"deployment": found}, rows=lambda: [{"id": found.pk}])
