"""Every page for every kind of visitor, and what a form may do without its token."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from observatory.benchmarks import files
from observatory.benchmarks.models import WorkloadFile
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs.models import Run
from tests.pages.cast import Cast, fill

STAFF_ONLY = {
    "run-power",
    "endpoint-new",
    "endpoint-edit",
    "endpoint-probe",
    "endpoint-start",
    "deployment-new",
    "deployment-edit",
    "site-edit",
    "hardware-price",
    "embodied-new",
    "welcome-probe",
    "welcome-start",
    "theory-upload",
}
POSTS = {
    "run-power",
    "endpoint-probe",
    "welcome-probe",
    "welcome-start",
    "benchmark-start",
    "study-start",
    "trial-cancel",
    "run-cancel",
    "run-price",
    "run-again",
    "schedule-toggle",
    "schedule-delete",
    "token-revoke",
    "workload-file-delete",
    "theory-upload",
    "quality-again",
    "quality-compare",
}
#: Pages with a form of their own, beside those named new and edit.
FORMS = {"tokens", "workload-files", "quality-upload", "quality-set", "study-own", "study-ready", "study-schedule"}


def routes() -> Iterator[URLPattern]:
    """Every page but login and logout, and what has rights of its own: the API and the health check."""
    for entry in get_resolver().url_patterns:
        if isinstance(entry, URLResolver):
            if str(entry.pattern) == "":
                yield from entry.url_patterns
        elif entry.name not in ("login", "logout", "healthz"):
            yield entry


NAMES = sorted({str(route.name) for route in routes()})
PATHS = {str(route.name): f"/{route.pattern}" for route in routes()}


def address(name: str, cast: Cast) -> str:
    of = name.partition("-")[0]
    keys = {
        "endpoint": cast.endpoint.pk,
        "deployment": cast.deployment.pk,
        "benchmark": cast.benchmark.pk,
        "schedule": cast.schedule.pk,
        "run": cast.finished.pk,
        "quality": cast.quality.pk,
        "token": cast.token.pk,
        "site": 1,
        "workload": WorkloadFile.objects.get().pk,
        "welcome": cast.endpoint.pk,
        "study": cast.study.pk,
        "trial": cast.trial.pk,
    }
    return (
        PATHS[name]
        .replace("<int:pk>", str(keys.get(of, 0)))
        .replace("<int:benchmark>", str(cast.benchmark.pk))
        .replace("<int:study>", str(cast.study.pk))
        .replace("<slug:slug>", "two-phases" if of == "study" else "h100-sxm")
        .replace("<slug:calculator>", "speculative")
        .replace("<int:index>", "0")
        .replace(
            "<slug:name>", {"run-chart": "load", "compare-chart": "ecdf", "study-chart": "values"}.get(name, "requests")
        )
    )


@pytest.fixture
def cast(staff: User, settings: Any, tmp_path: Any) -> Cast:
    settings.MEDIA_ROOT = tmp_path
    files.keep(SimpleUploadedFile("p.jsonl", b'"Say one."'), "", "prompts", staff)
    return fill(staff)


def state() -> tuple[Any, ...]:
    return (
        Run.objects.count(),
        list(Run.objects.values_list("status", "cancel_requested_at")),
        list(Endpoint.objects.values()),
        list(Deployment.objects.values()),
    )


def test_anonymous_visitors_are_sent_to_the_login_page(client: Client, cast: Cast) -> None:
    before = state()
    for name in NAMES:
        for send in (client.get, client.post):
            answer = send(address(name, cast))
            assert (name, answer.status_code) == (name, 302)
            assert answer.url.startswith("/login?next=")
    assert state() == before


@pytest.mark.parametrize("kind", ["user", "staff"])
def test_pages_open_for_those_who_may_see_them_and_reading_changes_nothing(
    kind: str, user_client: Client, staff_client: Client, cast: Cast
) -> None:
    visitor = staff_client if kind == "staff" else user_client
    before = state()
    seen = {name: visitor.get(address(name, cast)).status_code for name in NAMES}
    expected = {name: 403 if name in STAFF_ONLY and kind == "user" else 405 if name in POSTS else 200 for name in NAMES}
    assert seen == expected
    assert state() == before


def test_users_may_not_change_the_catalog(user_client: Client, cast: Cast) -> None:
    before = state()
    for name in sorted(STAFF_ONLY):
        answer = user_client.post(address(name, cast), {"name": "mine", "url": "http://example.com"})
        assert (name, answer.status_code) == (name, 403)
        assert "Ask someone with the staff right" in answer.content.decode()
    assert state() == before


def test_every_form_needs_its_token(staff: User, cast: Cast) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(staff)
    before = state()
    for name in NAMES:
        if name in POSTS | FORMS or name.endswith(("-new", "-edit")):
            answer = strict.post(address(name, cast))
            assert (name, answer.status_code) == (name, 403)
            assert "nothing was changed" in answer.content.decode()
    assert state() == before


def test_a_token_is_revoked_only_by_its_owner(user_client: Client, cast: Cast) -> None:
    assert user_client.post(f"/tokens/{cast.token.pk}/revoke").status_code == 404
    cast.token.refresh_from_db()
    assert cast.token.revoked_at is None


def test_an_address_that_leads_nowhere_says_where_to_go(user_client: Client) -> None:
    answer = user_client.get("/runs/999999")
    assert answer.status_code == 404
    assert 'href="/runs"' in answer.content.decode()
