"""Forms and uploads that meet a full disk: the page says so, and where to free space."""

from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import OperationalError, connection
from django.test import Client

from observatory.benchmarks.models import WorkloadFile
from tests import factories
from tests.services.small_disk import small_disk

UPLOAD = b'"Say one."\n' * 4000


def upload(client: Client) -> Any:
    return client.post("/benchmarks/files", {"file": SimpleUploadedFile("a.jsonl", UPLOAD), "kind": "prompts"})


@pytest.fixture
def patient(user_client: Client) -> Client:
    """A client that gets error pages and not exceptions."""
    user_client.raise_request_exception = False
    return user_client


def test_an_upload_that_finds_the_disk_full_is_told_where_to_free_space(
    patient: Client, settings: Any, tmp_path: Path
) -> None:
    settings.MEDIA_ROOT = tmp_path
    with small_disk(tmp_path, 16):
        answer = upload(patient)
    assert answer.status_code == 507
    assert f"Free space at {tmp_path}." in answer.content.decode()
    assert not WorkloadFile.objects.exists()


def test_an_upload_that_not_even_the_folder_for_uploads_takes_is_told_too(
    patient: Client, settings: Any, tmp_path: Path
) -> None:
    settings.FILE_UPLOAD_TEMP_DIR, settings.FILE_UPLOAD_MAX_MEMORY_SIZE = tmp_path, 1000
    with small_disk(tmp_path, 16, files=0):
        assert upload(patient).status_code == 507


@pytest.mark.parametrize(
    ("words", "status"), [("database or disk is full", 507), ("database is locked", 500), ("", 500)]
)
def test_a_database_without_room_is_told_apart_from_other_faults(
    patient: Client, settings: Any, words: str, status: int
) -> None:
    benchmark = factories.benchmark()

    def fail(execute: Any, sql: str, *rest: Any) -> Any:
        if sql.startswith("INSERT"):
            raise OperationalError(words)
        return execute(sql, *rest)

    with connection.execute_wrapper(fail):
        answer = patient.post(
            f"/benchmarks/{benchmark.pk}/schedules/new", {"cron": "0 3 * * *", "time_zone": "UTC", "enabled": "on"}
        )
    assert answer.status_code == status
    assert ("Free space at /" in answer.content.decode()) is (status == 507)
