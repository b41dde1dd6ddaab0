"""What is known of accelerators and sites: searchable, each row with its source."""

from datetime import date
from typing import Any

import django_filters
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import F, Min, Model, Q, QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from observatory.catalog.models import (
    FACTORS,
    Accelerator,
    AcceleratorPrice,
    EmbodiedFactors,
    Site,
    SiteFactors,
    today,
)
from observatory.pages.access import Request, staff_required
from observatory.pages.catalog_forms import EmbodiedForm, PriceForm, SiteFactorsForm
from observatory.pages.listing import arrange
from observatory.pages.tables import EditableSiteTable, HardwareTable, SiteTable
from observatory.pages.twins import answer, facts


def _own(model: type[Model]) -> dict[str, str]:
    """Every field of the model under its own name, but not how it was seeded."""
    return {field.name: field.name for field in model._meta.fields if field.name != "seeded"}


#: For programs.
ACCELERATOR = {**_own(Accelerator), "cheapest_usd_per_hour": "cheapest"}
SITE = {**_own(Site), **{name: name for name in (*FACTORS, "pue_low", "pue_high", "effective_from", "note", "source")}}
PRICE = {
    name: name for name in ("provider", "kind", "effective_from", "usd_per_hour", "purchase_usd", "note", "source")
}


EMBODIED = {**_own(EmbodiedFactors), "accelerator": "accelerator.slug"}


class Search(django_filters.FilterSet):  # type: ignore[misc]
    """Words that must all occur, and one choice from a short list."""

    q = django_filters.CharFilter(method="words", label="Search")
    fields: tuple[str, ...] = ()

    def words(self, found: QuerySet[Any], name: str, text: str) -> QuerySet[Any]:
        for word in text.split():
            anywhere = Q()
            for field in self.fields:
                anywhere |= Q(**{f"{field}__icontains": word})
            found = found.filter(anywhere)
        return found


class HardwareSearch(Search):
    vendor = django_filters.AllValuesFilter(empty_label="all")
    fields = ("name", "vendor", "arch", "form_factor", "slug")

    class Meta:
        model = Accelerator
        fields = ("q", "vendor")


class SiteSearch(Search):
    provider = django_filters.AllValuesFilter(empty_label="all")
    fields = ("name", "provider", "region", "slug")

    class Meta:
        model = Site
        fields = ("q", "provider")


def _accelerators() -> QuerySet[Accelerator]:
    """With the lowest rent of today."""
    held = AcceleratorPrice.objects.on(today())
    return Accelerator.objects.annotate(cheapest=Min("prices__usd_per_hour", filter=Q(prices__in=held)))


@login_required
def hardware(request: Request, form: str = "html") -> HttpResponseBase:
    """Accelerators with their data sheets and lowest known price."""
    search = HardwareSearch(request.GET, _accelerators())
    context = {"table": arrange(HardwareTable(search.qs), request), "search": search}
    return answer(
        request,
        form,
        "catalog/hardware.html",
        context,
        rows=lambda: (facts(row, ACCELERATOR) for row in search.qs),
        columns=ACCELERATOR,
    )


@login_required
def item(request: Request, slug: str, form: str = "html") -> HttpResponseBase:
    """One accelerator: its data sheet and what it costs where."""
    found = get_object_or_404(_accelerators(), slug=slug)
    prices = list(found.prices.order_by(F("usd_per_hour").asc(nulls_last=True), "provider", "-effective_from"))
    held = set(found.prices.on(today()).values_list("pk", flat=True))
    return answer(
        request,
        form,
        "catalog/hardware_item.html",
        {"item": found, "prices": prices, "held": held},
        rows=lambda: (facts(price, PRICE) for price in prices),
        columns=PRICE,
        data=lambda: {**facts(found, ACCELERATOR), "prices": [facts(price, PRICE) for price in prices]},
    )


@login_required
def sites(request: Request, form: str = "html") -> HttpResponseBase:
    """Places: overhead, electricity, grid."""
    search = SiteSearch(request.GET, Site.objects.on(today()))
    kind = EditableSiteTable if request.user.is_staff else SiteTable
    context = {"table": arrange(kind(search.qs), request), "search": search}
    return answer(
        request,
        form,
        "catalog/sites.html",
        context,
        rows=lambda: (facts(row, SITE) for row in search.qs),
        columns=SITE,
    )


@staff_required
def add_factors(request: Request, pk: int) -> HttpResponse:
    """What is known about a place from a day on, beside what was known before. The same day again corrects its row."""
    found = get_object_or_404(Site, pk=pk)
    row = _row_of(found, request.POST.get("effective_from", ""))
    form = SiteFactorsForm(request.POST or None, instance=row, initial={} if request.POST else _today(found.current))
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved. Runs queued from that day on take these numbers; earlier runs keep theirs.")
        return redirect(f"{reverse('sites')}?q={found.slug}")
    context = {
        "form": form,
        "heading": f"What is known of {found.name}",
        "site": found,
        "rows": found.factors.order_by("-effective_from"),
        "back": reverse("sites"),
    }
    return render(request, "catalog/site_factors.html", context)


def _row_of(site: Site, day: str) -> SiteFactors:
    """The row of that day, else a new one."""
    try:
        known = site.factors.filter(effective_from=date.fromisoformat(day)).first()
    except ValueError:
        known = None
    return known or SiteFactors(site=site)


def _today(factors: SiteFactors) -> dict[str, Any]:
    """The numbers that hold, as a start for those of today."""
    names = (*FACTORS, "pue_low", "pue_high", "source", "note")
    return {"effective_from": today(), **{name: getattr(factors, name) for name in names}}


@staff_required
def add_price(request: Request, slug: str) -> HttpResponse:
    """What an accelerator costs somewhere from a day on."""
    found = get_object_or_404(Accelerator, slug=slug)
    form = PriceForm(
        request.POST or None, instance=AcceleratorPrice(accelerator=found), initial=_price_initial(request)
    )
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved. Prices of earlier days stay as they are.")
        return redirect("hardware-item", slug=slug)
    context = {
        "form": form,
        "heading": f"A price of {found.name}",
        "back": reverse("hardware-item", args=[slug]),
        "subnav": "catalog/subnav.html",
    }
    return render(request, "form.html", context)


@login_required
def embodied(request: Request, form: str = "html") -> HttpResponseBase:
    """Carbon of making accelerators and servers, by day."""
    found = list(EmbodiedFactors.objects.select_related("accelerator"))
    held = set(EmbodiedFactors.objects.on(today()).values_list("pk", flat=True))
    return answer(
        request,
        form,
        "catalog/embodied.html",
        {"rows": found, "held": held},
        rows=lambda: (facts(row, EMBODIED) for row in found),
        columns=EMBODIED,
    )


@staff_required
def add_embodied(request: Request) -> HttpResponse:
    """What making hardware emitted, as known from a day on. The same day again corrects its row."""
    row = _embodied_row(request.POST.get("accelerator", ""), request.POST.get("effective_from", ""))
    form = EmbodiedForm(request.POST or None, instance=row, initial=_embodied_initial(request))
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved. Runs queued from that day on take these numbers; earlier runs keep theirs.")
        return redirect("embodied")
    context = {
        "form": form,
        "heading": "Carbon of making hardware",
        "back": reverse("embodied"),
        "subnav": "catalog/subnav.html",
    }
    return render(request, "form.html", context)


def _embodied_row(accelerator: str, day: str) -> EmbodiedFactors | None:
    """The row of that day, if there is one."""
    try:
        since, pk = date.fromisoformat(day), int(accelerator) if accelerator else None
    except ValueError:
        return None
    same = EmbodiedFactors.objects.filter(effective_from=since)
    return (same.filter(accelerator=None) if pk is None else same.filter(accelerator=pk)).first()


def _embodied_initial(request: Request) -> dict[str, Any]:
    """The numbers that hold for the accelerator of ``?accelerator=SLUG``, as a start for those of today."""
    slug = request.GET.get("accelerator", "")
    known = EmbodiedFactors.objects.of(slug, today())
    names = ("accelerator_made_kg", "server_made_kg", "accelerators_per_server", "lifetime_years", "source", "note")
    numbers = {name: getattr(known, name) for name in names} if known else {}
    return {**numbers, "effective_from": today(), "accelerator": Accelerator.objects.filter(slug=slug).first()}


def _price_initial(request: Request) -> dict[str, Any]:
    """``?provider=`` and ``?kind=``: a new price of a row that is there."""
    return {"effective_from": today(), **{name: request.GET.get(name, "") for name in ("provider", "kind")}}
