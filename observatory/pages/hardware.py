"""What is known of accelerators and sites: searchable, each row with its source."""

from typing import Any

import django_filters
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Min, Q, QuerySet
from django.forms.models import model_to_dict
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from observatory.catalog.models import Accelerator, AcceleratorPrice, Site
from observatory.pages.access import Request, staff_required
from observatory.pages.catalog_forms import SiteForm
from observatory.pages.listing import arrange
from observatory.pages.tables import EditableSiteTable, HardwareTable, SiteTable
from observatory.pages.twins import answer


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


@login_required
def hardware(request: Request, form: str = "html") -> HttpResponse:
    """Accelerators with their data sheets and lowest known price."""
    search = HardwareSearch(request.GET, Accelerator.objects.annotate(cheapest=Min("prices__usd_per_hour")))
    context = {"table": arrange(HardwareTable(search.qs), request), "search": search}
    return answer(request, form, "catalog/hardware.html", context, rows=lambda: map(_fact, search.qs))


@login_required
def item(request: Request, slug: str, form: str = "html") -> HttpResponse:
    """One accelerator: its data sheet and what it costs where."""
    found = get_object_or_404(Accelerator, slug=slug)
    prices = list(found.prices.order_by("usd_per_hour"))
    return answer(
        request,
        form,
        "catalog/hardware_item.html",
        {"item": found, "prices": prices},
        rows=lambda: map(_price, prices),
        data=lambda: {**_fact(found), "prices": list(map(_price, prices))},
    )


@login_required
def sites(request: Request, form: str = "html") -> HttpResponse:
    """Places: overhead, electricity, grid."""
    search = SiteSearch(request.GET, Site.objects.all())
    kind = EditableSiteTable if request.user.is_staff else SiteTable
    context = {"table": arrange(kind(search.qs), request), "search": search}
    return answer(request, form, "catalog/sites.html", context, rows=lambda: map(_fact, search.qs))


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


def _fact(item: Accelerator | Site) -> dict[str, Any]:
    return model_to_dict(item, exclude=["seeded"])


def _price(price: AcceleratorPrice) -> dict[str, Any]:
    return {
        "provider": price.provider,
        "usd_per_hour": float(price.usd_per_hour),
        "kind": price.kind,
        "note": price.note,
        "source": price.source,
    }
