"""The first-run guide: an address, a quick look, the run. Each step's result stands in its place."""

from typing import Any

from django import forms
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from observatory.catalog.fields import visible_ascii
from observatory.catalog.models import Endpoint
from observatory.pages import probes, quick_look
from observatory.pages.access import Request, staff_required
from observatory.pages.launch import start as launch
from runners.address import AddressError
from runners.spec import Dialect


class AddressForm(forms.Form):
    url = forms.CharField(
        label="URL",
        max_length=500,
        help_text="Base address of an LLM server.",
        widget=forms.TextInput(attrs={"inputmode": "url", "placeholder": "http://gpu-1:8000", "autofocus": True}),
    )
    api_key = forms.CharField(
        label="API key",
        required=False,
        validators=(visible_ascii,),
        help_text="Only if the server asks for one. Stored encrypted.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}, render_value=False),
    )
    dialect = forms.ChoiceField(choices=[(d.value, d.value) for d in Dialect], initial=Dialect.OPENAI_CHAT)


@login_required
def welcome(request: Request) -> HttpResponse:
    """The guide; ``?endpoint=`` continues with one that has answered."""
    number = request.GET.get("endpoint", "")
    known = number.isascii() and number.isdigit() and len(number) < 19
    endpoint = Endpoint.objects.filter(pk=number).first() if known else None
    form = AddressForm(initial={"url": endpoint.url, "dialect": endpoint.dialect} if endpoint else {})
    return _guide(request, form, endpoint)


@staff_required
@require_POST
def probe(request: Request) -> HttpResponse:
    """Asks the server. One that can be measured is kept in the catalog; of others nothing is kept."""
    form = AddressForm(request.POST)
    if not form.is_valid():
        return _guide(request, form)
    try:
        endpoint = quick_look.endpoint_for(form.cleaned_data["url"], form.cleaned_data["dialect"], request.user)
    except AddressError as error:
        form.add_error("url", str(error))
        return _guide(request, form)
    endpoint.api_key = form.cleaned_data["api_key"] or endpoint.api_key
    said = probes.ask(endpoint)
    if said["usable"] and endpoint.model:
        endpoint.save()
        response = _guide(request, form, endpoint)
        response["HX-Push-Url"] = f"{reverse('welcome')}?endpoint={endpoint.pk}"
        return response
    return _guide(request, form, said=said)


def _guide(
    request: Request, form: AddressForm, endpoint: Endpoint | None = None, said: dict[str, Any] | None = None
) -> HttpResponse:
    answered = said or (endpoint.probe if endpoint else None)
    ready = bool(endpoint and answered and answered["usable"])
    context = {
        "form": form,
        "endpoint": endpoint,
        "probe": answered,
        "ready": ready,
        "models": (answered["models"] or [endpoint.model]) if endpoint and answered else [],
        "estimate": quick_look.forecast(endpoint) if endpoint and ready else None,
        "known": Endpoint.objects.all()[:10],
    }
    return render(request, "pages/welcome.html", context)


@staff_required
@require_POST
def start(request: Request, pk: int) -> HttpResponse:
    """Starts the quick look at the endpoint and leads to the run."""
    endpoint = get_object_or_404(Endpoint, pk=pk)
    model = request.POST.get("model", "")[:200] or endpoint.model
    benchmark = quick_look.benchmark_for(quick_look.with_model(endpoint, model, request.user), request.user)
    return redirect(launch(request, benchmark) or benchmark)
