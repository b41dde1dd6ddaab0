"""What is known of accelerators and sites: searchable, each row with its source."""

from typing import Any

import django_filters
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Min, Model, Q, QuerySet
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from observatory.catalog.models import Accelerator, Site
from observatory.pages.access import Request, staff_required
from observatory.pages.catalog_forms import SiteForm
from observatory.pages.listing import arrange
from observatory.pages.tables import EditableSiteTable, HardwareTable, SiteTable
from observatory.pages.twins import answer, facts


def _own(model: type[Model]) -> dict[str, str]:
    """Every field of the model under its own name, but not how it was seeded."""
    return {field.name: field.name for field in model._meta.fields if field.name != "seeded"}


#: For programs.
ACCELERATOR = {**_own(Accelerator), "cheapest_usd_per_hour": "cheapest"}
SITE = _own(Site)
PRICE = {name: name for name in ("provider", "usd_per_hour", "kind", "note", "source")}


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
    return Accelerator.objects.annotate(cheapest=Min("prices__usd_per_hour"))


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
    prices = list(found.prices.order_by("usd_per_hour"))
    return answer(
        request,
        form,
        "catalog/hardware_item.html",
        {"item": found, "prices": prices},
        rows=lambda: (facts(price, PRICE) for price in prices),
        columns=PRICE,
        data=lambda: {**facts(found, ACCELERATOR), "prices": [facts(price, PRICE) for price in prices]},
    )


@login_required
def sites(request: Request, form: str = "html") -> HttpResponseBase:
    """Places: overhead, electricity, grid."""
    search = SiteSearch(request.GET, Site.objects.all())
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
def edit_site(request: Request, pk: int) -> HttpResponse:
    """What is known about a place."""
    found = get_object_or_404(Site, pk=pk)
    form = SiteForm(request.POST or None, instance=found)
    if request.method == "POST" and form.is_valid():
        form.save()
        messages.success(request, "Saved. Later runs take these numbers; earlier runs keep theirs.")
        return redirect(f"{reverse('sites')}?q={found.slug}")
    context = {"form": form, "heading": f"Edit {found.name}", "back": reverse("sites"), "subnav": "catalog/subnav.html"}
    return render(request, "form.html", context)
