"""Endpoints: list, page, form, probe."""

import json
import shlex
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Count
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from observatory.catalog.models import Endpoint
from observatory.pages import probes
from observatory.pages.access import Request, staff_required
from observatory.pages.catalog_forms import EndpointForm
from observatory.pages.deployments import all_deployments
from observatory.pages.engine_form import EngineForm
from observatory.pages.listing import arrange
from observatory.pages.run_lists import latest
from observatory.pages.tables import DeploymentTable, EndpointTable
from observatory.pages.twins import answer, facts
from observatory.runs import money
from observatory.runs.models import Run
from runners.budget import Billing
from runners.engines.cli import arguments
from runners.engines.options import typed
from runners.engines.recipe import OPTIONS, Recipe
from runners.prices.guard import Asked

#: For programs. The key is not in it.
COLUMNS = {
    "id": "pk",
    "name": "name",
    "url": "url",
    "model": "model",
    "dialect": "dialect",
    "extra_headers": "extra_headers",
    "extra_body": "extra_body",
    "proxy": "proxy",
    "metrics_url": "metrics_url",
    "billing": "billing",
    "usable": "probe.usable",
    "engine": "probe.engine",
    "engine_version": "probe.engine_version",
    "probed_at": "probed_at",
}


@login_required
def endpoints(request: Request, form: str = "html") -> HttpResponseBase:
    """All endpoints."""
    found = Endpoint.objects.annotate(deployment_count=Count("deployments"))
    table = arrange(EndpointTable(found), request)
    return answer(
        request,
        form,
        "catalog/endpoints.html",
        {"table": table},
        rows=lambda: (facts(item, COLUMNS) for item in found),
        columns=COLUMNS,
    )


@login_required
def endpoint(request: Request, pk: int, form: str = "html") -> HttpResponseBase:
    """One endpoint: its address, what answers there, its deployments and latest runs."""
    found = get_object_or_404(Endpoint, pk=pk)
    context = {
        "endpoint": found,
        "wire": _wire(found),
        "command": shlex.join(["python", "-m", "runners", "engine", *_arguments(found)]) if found.recipe else "",
        "options": [(name, typed(value)) for name, value in found.recipe.get("options", {}).items()],
        "measured": _measured(found),
        "price": money.rates(found) if found.billing == Billing.TOKENS else None,
        "charging": Asked(found.url, (found.model,)).charging if found.billing == Billing.UNSAID else "",
        "deployments": DeploymentTable(all_deployments().filter(endpoint=found), exclude=("endpoint", "model")),
        "runs": latest(Run.objects.filter(endpoint=found)),
    }
    return answer(
        request,
        form,
        "catalog/endpoint.html",
        context,
        rows=lambda: [facts(found, COLUMNS)],
        data=lambda: {**facts(found, COLUMNS), "recipe": found.recipe, "probe": found.probe},
    )


def _wire(endpoint: Endpoint) -> list[tuple[str, str]]:
    """(what, value) of how requests go out, where that is not as usual; no secret is among them."""
    shown = {
        "Header of the key": endpoint.api_key_header,
        "Headers more": ", ".join(f"{name}: {value}" for name, value in endpoint.extra_headers.items()),
        "Body fields more": json.dumps(endpoint.extra_body, ensure_ascii=False) if endpoint.extra_body else "",
        "Authorities": "own (CA)" if endpoint.ca_pem else "",
        "Client certificate": endpoint.client_hint,
        "Proxy": endpoint.proxy,
        "Metrics page": endpoint.metrics_url,
    }
    return [(name, value) for name, value in shown.items() if value]


def _arguments(endpoint: Endpoint) -> list[str]:
    return arguments(Recipe.from_json(endpoint.recipe))


def _measured(endpoint: Endpoint) -> Run | None:
    """The run that measured it last, which says more than a probe does."""
    return Run.objects.filter(endpoint=endpoint, status=Run.Status.FINISHED, valid=True).first()


@staff_required
def edit(request: Request, pk: int | None = None) -> HttpResponse:
    """The form of a new or known endpoint. The server is asked at once, and what it says is kept with the endpoint."""
    found = get_object_or_404(Endpoint, pk=pk) if pk else Endpoint(created_by=request.user)
    if found.recipe:
        return _start(request, found)
    form = EndpointForm(request.POST or None, instance=found)
    if request.method == "POST" and form.is_valid():
        said = probes.ask(form.instance)
        if form.instance.model:
            form.save()
            _tell(request, said)
            return redirect(form.instance)
        form.add_error("model", _unnamed(said))
    context = {
        "form": form,
        "heading": f"Edit {found.name}" if pk else "Add an endpoint",
        "button": "Save and probe",
        "back": found.get_absolute_url() if pk else reverse("endpoints"),
        "subnav": "catalog/subnav.html",
    }
    return render(request, "form.html", context)


@staff_required
def start(request: Request) -> HttpResponse:
    """The form of an endpoint whose engine a worker starts for each run."""
    return _start(request, Endpoint(created_by=request.user))


def _start(request: Request, found: Endpoint) -> HttpResponse:
    known = found.pk is not None
    form = EngineForm(request.POST or None, instance=found)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved. A worker starts the engine for each run, and ends it after.")
        return redirect(form.instance)
    context = {
        "form": form,
        "heading": f"Edit {found.name}" if known else "Let the observatory start an engine",
        "button": "Save",
        "back": found.get_absolute_url() if known else reverse("endpoints"),
        "subnav": "catalog/subnav.html",
        "engines": [(engine.value, OPTIONS[engine]) for engine in OPTIONS if OPTIONS[engine]],
    }
    return render(request, "catalog/engine_form.html", context)


def _tell(request: Request, said: dict[str, Any]) -> None:
    if said["usable"]:
        messages.success(request, "Saved. The server answers and can be measured.")
    else:
        messages.warning(request, "Saved, but it cannot be measured yet: see what to do below.")


def _unnamed(said: dict[str, Any]) -> str:
    why = "The server names no models" if said["usable"] else said["text"]
    return f"{why.rstrip('.')}. Correct this, or type the model's name here and save to probe again later."


@staff_required
@require_POST
def probe(request: Request, pk: int) -> HttpResponse:
    """Asks the server again and keeps the answer."""
    found = get_object_or_404(Endpoint, pk=pk)
    probes.ask(found)
    found.save(update_fields=["probe", "probed_at"])
    if not request.htmx:
        return redirect(found)
    return render(request, "catalog/probe.html", {"endpoint": found, "probe": found.probe})
