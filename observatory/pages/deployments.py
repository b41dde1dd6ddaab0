"""Deployments: list, page, form."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from observatory.catalog.models import Deployment, Endpoint
from observatory.pages.access import Request, staff_required
from observatory.pages.benchmark_lists import all_benchmarks
from observatory.pages.catalog_forms import DeploymentForm
from observatory.pages.listing import arrange
from observatory.pages.run_lists import latest
from observatory.pages.tables import BenchmarkTable, DeploymentTable
from observatory.pages.twins import Row, answer
from observatory.runs.models import Run


def all_deployments() -> QuerySet[Deployment]:
    return Deployment.objects.select_related("endpoint", "accelerator", "site")


@login_required
def deployments(request: Request, form: str = "html") -> HttpResponse:
    """All deployments."""
    found = all_deployments()
    table = arrange(DeploymentTable(found), request)
    return answer(request, form, "catalog/deployments.html", {"table": table}, rows=lambda: map(row, found))


@login_required
def deployment(request: Request, pk: int, form: str = "html") -> HttpResponse:
    """One deployment: what serves, what it costs, its benchmarks and latest runs."""
    found = get_object_or_404(all_deployments(), pk=pk)
    context = {
        "deployment": found,
        "benchmarks": BenchmarkTable(all_benchmarks().filter(deployment=found), exclude=("deployment",)),
        "runs": latest(Run.objects.filter(deployment=found)),
    }
    return answer(
        request,
        form,
        "catalog/deployment.html",
        context,
        rows=lambda: [row(found)],
        data=lambda: row(found),
    )


def row(deployment: Deployment) -> Row:
    """For programs."""
    price, site = deployment.usd_per_hour, deployment.site
    return {
        "id": deployment.pk,
        "name": deployment.name,
        "endpoint": deployment.endpoint.name,
        "model": deployment.endpoint.model,
        "engine": deployment.engine,
        "engine_version": deployment.engine_version,
        "precision": deployment.precision,
        "hardware": deployment.hardware,
        "tensor_parallel": deployment.tensor_parallel,
        "pipeline_parallel": deployment.pipeline_parallel,
        "replicas": deployment.replicas,
        "accelerator_group": deployment.accelerator_group,
        "usd_per_hour": None if price is None else float(price),
        "price_source": deployment.price_source,
        "site": site.name if site else None,
    }


@staff_required
def edit(request: Request, pk: int | None = None) -> HttpResponse:
    """The form of a new or known deployment; ``?endpoint=`` fills in what its probe has found out."""
    found = get_object_or_404(Deployment, pk=pk) if pk else None
    form = DeploymentForm(request.POST or None, instance=found, initial={} if found else _known(request))
    if request.method == "POST" and form.is_valid():
        saved = form.save()
        messages.success(request, "Saved. Later runs take these facts; earlier runs keep those that they were made with.")
        return redirect(saved)
    context = {
        "form": form,
        "heading": f"Edit {found.name}" if found else "Add a deployment",
        "back": found.get_absolute_url() if found else reverse("deployments"),
        "subnav": "catalog/subnav.html",
    }
    return render(request, "form.html", context)


def _known(request: Request) -> dict[str, object]:
    """What the endpoint named in the URL tells about a deployment of it."""
    text = request.GET.get("endpoint", "")
    endpoint = Endpoint.objects.filter(pk=text).first() if text.isascii() and text.isdigit() else None
    if endpoint is None:
        return {}
    probe = endpoint.probe or {}
    name = f"{endpoint.model} on {endpoint.name}"[:100]
    return {
        "endpoint": endpoint,
        "name": name,
        "engine": probe.get("engine", ""),
        "engine_version": probe.get("engine_version", ""),
    }
