"""Power for a run that has ended: a log of nvidia-smi through the page and over REST, and what Prometheus kept."""

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from observatory.api.tokens import make
from observatory.pages.results import RunResults
from observatory.runs.models import Run
from tests import factories
from tests.services.instruments import WATTS, Prometheus, serving, smi_log
from tests.simulation import Plan

pytestmark = pytest.mark.django_db
PLAN = Plan(levels=(1, 2), requests=80, output_tokens=24, energy="")


@pytest.fixture
def staff_client(user: User) -> Client:
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = Client()
    client.force_login(User.objects.get(pk=user.pk))
    return client


@pytest.fixture
def run() -> Run:
    return factories.finished_run(plan=PLAN)


@pytest.fixture
def log(run: Run, tmp_path: Path) -> bytes:
    """Of the time of the run, a minute on both sides."""
    smi_log(
        tmp_path / "smi.csv", 240, end_s=datetime.fromisoformat(run.summary["clock_anchor"]["utc"]).timestamp() + 180
    )
    return (tmp_path / "smi.csv").read_bytes()


def send(client: Client, run: Run, **data: Any) -> str:
    return client.post(f"/runs/{run.pk}/power", data, follow=True).content.decode()


def stages(run: Run) -> Any:
    return RunResults(Run.objects.get(pk=run.pk)).stages


def test_an_uploaded_log_gives_a_run_its_energy(staff_client: Client, run: Run, log: bytes) -> None:
    before = {stage.index: stage.value("ttft_ms") for stage in stages(run)}
    found = send(staff_client, run, log=SimpleUploadedFile("smi.csv", log), zone="UTC")
    assert "counted anew" in found
    after = stages(run)
    assert after[1].value("power_w") == pytest.approx(WATTS, rel=0.001)
    assert after[1].stage.energy["boundary"] == "accelerator"
    assert {stage.index: stage.value("ttft_ms") for stage in after} == before
    kept = Run.objects.get(pk=run.pk)
    assert kept.power_file
    assert kept.summary["power"]["source"] == "csv"
    assert kept.summary["energy"]["queries"] == 160


@pytest.mark.parametrize(
    ("log", "zone", "words"),
    [
        (b"a,b\n1,2\n", "UTC", "Nothing was changed."),
        (None, "Mars/Base", "the time zone of the log"),
        (None, "UTC", "Nothing was changed."),
    ],
)
def test_a_log_that_cannot_be_used_changes_nothing(
    staff_client: Client, run: Run, log: bytes | None, zone: str, words: str
) -> None:
    found = send(staff_client, run, log=SimpleUploadedFile("smi.csv", log or b"timestamp, uuid\n"), zone=zone)
    assert words in found
    assert "/tmp/" not in found
    assert not Run.objects.get(pk=run.pk).power_file


def test_prometheus_is_asked_over_the_page(staff_client: Client, run: Run) -> None:
    with serving(Prometheus()) as server:
        found = send(staff_client, run, url=server.url, query="p", step_s="0.1")
    assert "counted anew" in found
    assert stages(run)[1].value("power_w") == pytest.approx(WATTS, rel=0.01)
    assert "must start with http" in send(staff_client, run, url="ftp://x", query="p")


def test_only_staff_may_change_a_run(user_client: Client, run: Run, log: bytes) -> None:
    answer = user_client.post(f"/runs/{run.pk}/power", {"log": SimpleUploadedFile("smi.csv", log), "zone": "UTC"})
    assert answer.status_code == 403
    assert "Add power that was kept" not in user_client.get(f"/runs/{run.pk}?tab=energy").content.decode()


def test_over_rest_a_log_gives_a_run_its_energy(staff_client: Client, user: User, run: Run, log: bytes) -> None:
    token = {"HTTP_AUTHORIZATION": f"Bearer {make(User.objects.get(pk=user.pk), 'test')[1]}"}
    address = f"/api/v1/runs/{run.pk}/power"
    bad = Client().post(f"{address}/log", {"log": SimpleUploadedFile("smi.csv", b"x"), "zone": "UTC"}, **token)
    assert bad.status_code == 422
    done = Client().post(f"{address}/log", {"log": SimpleUploadedFile("smi.csv", log), "zone": "UTC"}, **token)
    assert done.status_code == 200, done.content
    assert done.json()["stages"][1]["energy"]["it_j"] > 0
    refused = Client().post(
        f"{address}/prometheus", {"url": "ftp://x", "query": "p"}, content_type="application/json", **token
    )
    assert refused.status_code == 422
    assert refused.json()["fields"][0]["field"] == "url"
