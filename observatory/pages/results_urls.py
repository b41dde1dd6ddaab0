"""Addresses of the run page and the compare page."""

from django.urls import URLPattern, path

from observatory.pages import compare, run
from observatory.pages.twins import paths

urlpatterns: list[URLPattern] = [
    *paths("runs/<int:pk>", run.run, "run"),
    path("runs/<int:pk>/chart/<slug:name>.json", run.chart, name="run-chart"),
    path("runs/<int:pk>/progress", run.progress, name="run-progress"),
    path("runs/<int:pk>/again", run.again, name="run-again"),
    path("runs/<int:pk>/power", run.add_power, name="run-power"),
    path("runs/<int:pk>/price", run.price_again, name="run-price"),
    path("runs/<int:pk>/<slug:name>.parquet", run.raw_file, name="run-raw"),
    *paths("compare", compare.compare, "compare"),
    path("compare/chart/<slug:name>.json", compare.chart, name="compare-chart"),
]
