"""The description of the API, the page that shows it, and whether the API keeps what it promises."""

from collections.abc import Iterator

import hypothesis
import pytest
import schemathesis
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from hypothesis import HealthCheck
from playwright.sync_api import Page
from schemathesis.specs.openapi.checks import positive_data_acceptance

from observatory.api.root import api
from observatory.api.shapes import BIGGEST_ID
from observatory.schedules.models import Schedule
from observatory.studies import trials
from observatory.wsgi import application
from tests.api.conftest import Caller
from tests.browser import Browser
from tests.factories import finished_run, queued_run, study
from tests.simulation import Plan

schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)


@pytest.mark.django_db
def test_every_error_has_one_shape_and_every_operation_needs_a_token() -> None:
    described = Client().get("/api/v1/openapi.json").json()
    assert described["components"]["securitySchemes"] == {"BearerToken": {"type": "http", "scheme": "bearer"}}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            assert operation["security"] == [{"BearerToken": []}], (method, path)
            for status, response in operation["responses"].items():
                if status >= "400":
                    shape = response["content"]["application/json"]["schema"]
                    assert shape == {"$ref": "#/components/schemas/Error"}, (method, path, status)


def test_a_key_is_only_ever_asked_for() -> None:
    shapes = api.get_openapi_schema(path_prefix="")["components"]["schemas"]
    for secret in ("api_key", "client_pem"):
        names = {name for name, shape in shapes.items() if secret in shape.get("properties", {})}
        assert names == {"EndpointIn", "EndpointInPatch"}


def test_the_page_is_there_without_a_login_and_asks_no_other_host() -> None:
    page = Client().get("/api/v1/docs")
    assert page.status_code == 200
    assert b"https://" not in page.content
    assert Client().get("/api/v1/").headers["Location"] == "docs"


@pytest.mark.browser
def test_the_page_lists_all_operations_under_the_content_security_policy(browser: Browser) -> None:
    def look(page: Page) -> int:
        page.goto("/api/v1/docs")
        page.wait_for_selector(".opblock")
        return page.locator(".opblock").count()

    assert browser.run(look) == sum(len(methods) for methods in schema.raw_schema["paths"].values())


@pytest.fixture
def _one_connection() -> Iterator[None]:
    """Requests leave the test's own database connection open, as in Django's test client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def stored(db: None, _one_connection: None) -> dict[str, int]:
    """Rows that generated calls may hit: the ids by the first part of the address."""
    run, waiting = finished_run(plan=Plan(levels=(1,), requests=8)), queued_run()
    schedule = Schedule.objects.create(benchmark=run.benchmark, cron="0 3 * * *")
    trial = trials.create(study(), "page")
    return {
        "endpoints": run.endpoint_id,
        "deployments": run.deployment_id,
        "benchmarks": waiting.benchmark_id,
        "runs": run.pk,
        "schedules": schedule.pk,
        "studies": trial.study_id,
        "trials": trial.pk,
    }


#: The lab takes a second for each call; its inputs are read as those of every calculator.
@schema.exclude(path="/api/v1/calc/quantization").parametrize()
@hypothesis.settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_whatever_is_sent_the_answer_is_as_described(
    case: schemathesis.Case, stored: dict[str, int], as_staff: Caller
) -> None:
    key = case.path_parameters.get("key")
    if type(key) is int and 1 <= key <= BIGGEST_ID and key % 2:  # a bad key stays as bad as it is
        noun = case.operation.path.removeprefix("/api/v1/").split("/")[0]
        case.path_parameters["key"] = stored.get(noun, key)
    hypothesis.assume(not any(value in ([], {}, None) for value in (case.query or {}).values()))  # would not be sent
    cache.clear()
    answer = case.call_and_validate(
        headers={"Authorization": f"Bearer {as_staff.token}"}, excluded_checks=[positive_data_acceptance]
    )
    assert answer.status_code < 500


def test_every_operation_is_named_in_words() -> None:
    names = {
        operation["operationId"].rsplit("_api_", 1)[-1].replace("_", " "): operation["summary"]
        for path in api.get_openapi_schema()["paths"].values()
        for operation in path.values()
    }
    assert "Start a run of a benchmark" in names.values()
    assert not [summary for summary in names.values() if summary == summary.title() and " " in summary]
