"""Every address of the API x who asks. A new address is covered as soon as it is in the description."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.test import override_settings

from observatory.api import tokens
from observatory.api.root import api
from observatory.benchmarks import files
from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Accelerator, Site
from observatory.schedules.models import Schedule
from observatory.studies import trials
from tests.api.conftest import Caller
from tests.factories import benchmark, finished_run, quality_result, study
from tests.simulation import Plan

pytestmark = pytest.mark.django_db

OPERATIONS = [
    (method.upper(), path)
    for path, methods in api.get_openapi_schema(path_prefix="")["paths"].items()
    for method in methods
]
STAFF_NOUNS = ("endpoints", "deployments")
STAFF_ONLY = {
    (method, path)
    for method, path in OPERATIONS
    if method != "GET" and (path.strip("/").startswith(STAFF_NOUNS) or "/power/" in path)
}


@pytest.fixture(scope="module")
def world(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[dict[str, int], Path]]:
    """The numbers of one row of each kind and the folder of their files. Each test changes them in a transaction of
    its own inside this one.
    """
    media = tmp_path_factory.mktemp("media")
    with django_db_blocker.unblock():
        around = transaction.atomic()
        around.__enter__()
        with override_settings(MEDIA_ROOT=media):
            made = rows()
    yield made, media
    with django_db_blocker.unblock():
        transaction.set_rollback(True)
        around.__exit__(None, None, None)


@pytest.fixture
def ids(world: tuple[dict[str, int], Path], db: None, settings: Any) -> dict[str, int]:
    made, media = world
    shutil.copytree(media, settings.MEDIA_ROOT, dirs_exist_ok=True)
    return made


def rows() -> dict[str, int]:
    """One of each kind, all unrelated to what would keep it from being deleted."""
    run = finished_run(plan=Plan(levels=(1, 2), requests=8))
    accelerator = Accelerator.objects.create(slug="a", name="A", vendor="V")
    site = Site.objects.create(slug="s", name="S")
    schedule = Schedule.objects.create(benchmark=run.benchmark, cron="0 3 * * *")
    trial = trials.create(study(), "page")
    file = files.keep(SimpleUploadedFile("a.jsonl", b'"Say one."'), "", "prompts", run.started_by)
    one, other = (quality_result(benchmark().deployment) for _ in range(2))
    return {
        "workload-files": file.pk,
        "endpoints": run.endpoint_id,
        "deployments": run.deployment_id,
        "benchmarks": run.benchmark_id,
        "runs": run.pk,
        "schedules": schedule.pk,
        "studies": trial.study_id,
        "trials": trial.pk,
        "quality": one.pk,
        "other quality": other.pk,
        "accelerators": accelerator.pk,
        "sites": site.pk,
    }


def bodies(ids: dict[str, int]) -> dict[tuple[str, str], dict[str, Any]]:
    """A good body for each operation that takes one."""
    return {
        ("POST", "endpoints"): {"name": "new", "url": "http://127.0.0.1:1", "model": "m"},
        ("PATCH", "endpoints"): {"name": "renamed"},
        ("POST", "deployments"): {"name": "new", "endpoint_id": ids["endpoints"]},
        ("PATCH", "deployments"): {"name": "renamed"},
        ("POST", "benchmarks"): {"name": "new", "deployment_id": ids["deployments"], "load": {"requests": 5}},
        ("PATCH", "benchmarks"): {"name": "renamed"},
        ("POST", "runs"): {"benchmark_id": ids["benchmarks"]},
        ("POST", "schedules"): {"benchmark_id": ids["benchmarks"], "cron": "0 4 * * *"},
        ("PATCH", "schedules"): {"enabled": False},
        ("POST", "studies"): {
            "name": "new",
            "question": "Which?",
            "arms": [{"name": name, "deployment_id": ids["deployments"]} for name in ("one", "two")],
            "spec": {"load": {"levels": [1], "requests": 5}},
            "measures": [{"metric": "ttft_ms"}],
        },
        ("POST", "quality"): {"deployment_id": ids["deployments"]},
        ("POST", "quality/lm-eval"): {
            "deployment_id": ids["deployments"],
            "results": {"results": {"arc_easy": {"acc": 0.62, "acc_stderr": 0.0485}}},
        },
        ("POST", "quality/task-sets"): {
            "name": "mine",
            "lines": '{"id": "a", "kind": "exact", "prompt": "Say one.", "answers": ["one"]}',
        },
        ("POST", "quality/{key}/compare"): {"reference_id": ids["other quality"]},
        ("POST", "runs/{key}/pricings"): {"day": "2026-11-29"},
        ("POST", "runs/{key}/power/prometheus"): {"url": "http://127.0.0.1:9", "query": "up"},
        ("POST", "studies/ready"): {"template": "two-phases", "name": "new"},
    }


def ask(caller: Caller, method: str, path: str, ids: dict[str, int]) -> Any:
    noun = path.strip("/").split("/")[0].removesuffix(".csv")
    address = path.replace("{key}", str(ids.get(noun, "")))
    if noun == "comparison":
        address += f"?stage={ids['runs']}.0&stage={ids['runs']}.1"
    if (method, noun) == ("POST", "workload-files"):
        return caller.upload(address, b'"Say one."', kind="prompts")
    if path.endswith("/power/log"):
        return caller.upload(address, b"timestamp, power.draw [W]\n", part="log")
    known = bodies(ids)
    body = None if path.endswith("/trials") else known.get((method, path.strip("/")), known.get((method, noun)))
    return caller.call(method, f"/{address.lstrip('/')}", body)


def test_the_matrix_covers_every_kind_of_address() -> None:
    assert len(OPERATIONS) >= 35
    assert len(STAFF_ONLY) == 8


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_nobody_gets_in_without_a_token_or_with_a_revoked_one(
    method: str, path: str, ids: dict[str, int], user: User
) -> None:
    before = Benchmark.objects.count()
    token, text = tokens.make(user, "old")
    tokens.revoke(token)
    for caller, code in ((Caller(), "token_missing"), (Caller(text), "token_revoked")):
        answer = ask(caller, method, path, ids)
        assert (answer.status_code, answer.json()["code"]) == (401, code)
    assert Benchmark.objects.count() == before


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_a_user_may_do_all_but_change_endpoints_and_deployments(
    method: str, path: str, ids: dict[str, int], as_user: Caller
) -> None:
    answer = ask(as_user, method, path, ids)
    if (method, path) in STAFF_ONLY:
        assert (answer.status_code, answer.json()["code"]) == (403, "staff_only")
    else:
        assert answer.status_code in (200, 201, 204) or answer.json()["code"] in ("in_use", "ended", "running")


@pytest.mark.parametrize(("method", "path"), sorted(STAFF_ONLY))
def test_staff_may_change_endpoints_and_deployments(
    method: str, path: str, ids: dict[str, int], as_staff: Caller
) -> None:
    answer = ask(as_staff, method, path, ids)
    refused = answer.status_code not in (200, 201, 204)
    assert not refused or answer.json()["code"] == ("invalid" if "/power/" in path else "in_use")
