from django.contrib.auth.views import LoginView, LogoutView
from django.urls import URLPattern, URLResolver, include, path

from observatory.pages import benchmarks, deployments, endpoints, overview, runs, schedules, tokens, welcome
from observatory.pages.twins import paths

urlpatterns: list[URLPattern | URLResolver] = [
    path("login", LoginView.as_view(redirect_authenticated_user=True), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    *paths("", overview.overview, "overview", data_route="overview"),
    path("welcome", welcome.welcome, name="welcome"),
    *paths("runs", runs.runs, "runs"),
    *paths("endpoints", endpoints.endpoints, "endpoints"),
    *paths("endpoints/<int:pk>", endpoints.endpoint, "endpoint"),
    *paths("deployments", deployments.deployments, "deployments"),
    *paths("deployments/<int:pk>", deployments.deployment, "deployment"),
    *paths("benchmarks", benchmarks.benchmarks, "benchmarks"),
    *paths("benchmarks/<int:pk>", benchmarks.benchmark, "benchmark"),
    *paths("schedules", schedules.schedules, "schedules"),
    *paths("schedules/<int:pk>", schedules.schedule, "schedule"),
    path("tokens", tokens.tokens, name="tokens"),
    path("", include("observatory.pages.results_urls")),
]
