"""Deployments: list, page, form."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.db.models import Min, QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from observatory.catalog import pools
from observatory.catalog.models import Deployment, Endpoint
from observatory.pages import quality_lists
from observatory.pages.access import Request, staff_required
from observatory.pages.benchmark_lists import all_benchmarks
from observatory.pages.catalog_forms import DeploymentForm, PoolFormSet, pool_forms
from observatory.pages.listing import arrange
from observatory.pages.run_lists import latest
from observatory.pages.tables import BenchmarkTable, DeploymentTable
from observatory.pages.twins import answer, facts
from observatory.runs.models import Run

#: For programs.
COLUMNS = {
    "id": "pk",
    "name": "name",
    "endpoint": "endpoint.name",
    "model": "endpoint.model",
    "engine": "engine",
    "engine_version": "engine_version",
    "precision": "precision",
    "hardware": "hardware",
    "tensor_parallel": "tensor_parallel",
    "pipeline_parallel": "pipeline_parallel",
    "replicas": "replicas",
    "accelerator_group": "accelerator_group",
    "usd_per_hour": "usd_per_hour",
    "price_source": "price_source",
    "site": "site.name",
    "power_hosts": "power_hosts",
    "gpu_shared": "gpu_shared",
    "queries_per_hour": "queries_per_hour",
}


def all_deployments() -> QuerySet[Deployment]:
    """The first accelerator's name is what they are sorted by."""
    found = Deployment.objects.select_related("endpoint", "site").prefetch_related("pools__accelerator")
    return found.annotate(first_accelerator=Min("pools__accelerator__name"))


@login_required
def deployments(request: Request, form: str = "html") -> HttpResponseBase:
    """All deployments."""
    found = all_deployments()
    table = arrange(DeploymentTable(found), request)
    return answer(
        request,
        form,
        "catalog/deployments.html",
        {"table": table},
        rows=lambda: (facts(item, COLUMNS) for item in found),
        columns=COLUMNS,
    )


@login_required
def deployment(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """One deployment: what serves, what it costs, its benchmarks and latest runs."""
    found = get_object_or_404(all_deployments(), pk=pk)
    context = {
        "deployment": found,
        "benchmarks": BenchmarkTable(all_benchmarks().filter(deployment=found), exclude=("deployment",)),
        "results": quality_lists.latest(quality_lists.stored().filter(deployment=found), exclude=("deployment",)),
        "runs": latest(Run.objects.filter(deployment=found), exclude=("deployment",)),
    }
    return answer(
        request,
        form,
        "catalog/deployment.html",
        context,
        rows=lambda: [facts(found, COLUMNS)],
        data=lambda: facts(found, COLUMNS),
    )


@staff_required
def edit(request: Request, pk: int | None = None) -> HttpResponse:
    """The form of a new or known deployment; ``?endpoint=`` fills in what its probe has found out."""
    found = get_object_or_404(Deployment, pk=pk) if pk else None
    form = DeploymentForm(request.POST or None, instance=found, initial={} if found else _known(request))
    rows = pool_forms(found or Deployment(), request.POST or None)
    if request.method == "POST" and _saved(form, rows):
        messages.success(
            request, "Saved. Later runs take these facts; earlier runs keep those that they were made with."
        )
        return redirect(form.instance)
    context = {
        "form": form,
        "rows": rows,
        "heading": f"Edit {found.name}" if found else "Add a deployment",
        "back": found.get_absolute_url() if found else reverse("deployments"),
        "subnav": "catalog/subnav.html",
    }
    return render(request, "catalog/deployment_form.html", context)


def _saved(form: DeploymentForm, rows: PoolFormSet) -> bool:
    """The deployment and its pools, both or neither; what is wrong is said at its field."""
    if not all((form.is_valid(), rows.is_valid())):
        return False
    try:
        pools.check(form.instance, rows.pools)
    except ValidationError as error:
        for name, messages_ in error.message_dict.items():
            form.add_error(name if name in form.fields else None, messages_)
        return False
    pools.save(form.instance, rows.pools)
    return True


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
