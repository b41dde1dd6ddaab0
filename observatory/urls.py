from django.urls import URLPattern, URLResolver, include, path

from observatory.api.health import healthz

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("observatory.api.urls")),
    path("healthz", healthz, name="healthz"),
]
