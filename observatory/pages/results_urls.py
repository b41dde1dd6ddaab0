"""Addresses of the run page and the compare page."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path

from observatory.runs.models import Run


@login_required
def run(request: HttpRequest, pk: int) -> HttpResponse:
    return HttpResponse(get_object_or_404(Run, pk=pk).status)


@login_required
def compare(request: HttpRequest) -> HttpResponse:
    return HttpResponse(", ".join(request.GET.getlist("run")))


urlpatterns: list[URLPattern] = [
    path("runs/<int:pk>", run, name="run"),
    path("compare", compare, name="compare"),
]
