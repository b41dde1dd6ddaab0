import hashlib
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from observatory.benchmarks.models import WorkloadFile
from tests import factories
from tests.questions import ask

PROMPTS = b'"Say one."\n{"prompt": "Say two."}\n'


@pytest.fixture(autouse=True)
def _apart(settings: Any, tmp_path: Any) -> None:
    settings.MEDIA_ROOT = tmp_path


def send(client: Client, data: bytes, kind: str = "prompts", name: str = "", of: str = "my prompts.jsonl") -> str:
    sent = {"file": SimpleUploadedFile(of, data), "kind": kind, "name": name}
    return client.post("/benchmarks/files", sent, follow=True).content.decode()


def test_a_file_is_read_kept_with_its_sha256_and_given_back_as_it_was(user_client: Client) -> None:
    page = send(user_client, PROMPTS)
    assert "my_prompts.jsonl is kept: 2 entries." in page
    kept = WorkloadFile.objects.get()
    assert (kept.size_bytes, kept.sha256) == (len(PROMPTS), hashlib.sha256(PROMPTS).hexdigest())
    answer = user_client.get(f"/benchmarks/files/{kept.pk}")
    assert b"".join(answer.streaming_content) == PROMPTS  # type: ignore[attr-defined]
    assert user_client.get("/benchmarks/files.json").json()["rows"][0]["sha256"] == kept.sha256


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b'"good"\nno json\n', "prompts", "X.txt, line 2: not JSON"),
        (b'{"text": 1}', "prompts", "X.txt, line 1: give &quot;prompt&quot;"),
        (b" \n", "prompts", "X.txt is empty"),
        (b'[{"conversations": [{"from": "gpt", "value": "Yes."}]}]', "chats", "holds no question"),
        (b"[" * 100_000, "chats", "X.txt"),
        (b"Timestamp,Request tokens\n1,2\n", "burstgpt", "no column"),
        (b"TIMESTAMP,ContextTokens,GeneratedTokens\nnoon,1,2\n", "azure", "line 2"),
        (b'{"timestamp": 1}', "mooncake", "line 1: not an object with timestamp"),
        (b"12\nmany\n", "lengths", "line 2"),
        (b"\xff\xfe", "lengths", "cannot be read"),
        (b"{}", "tokenizer", "tokenizer.json"),
        (b"", "prompts", "The submitted file is empty"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_what_is_wrong(
    user_client: Client, data: bytes, kind: str, words: str
) -> None:
    page = send(user_client, data, kind, "X.txt")
    assert words in page
    assert "/tmp" not in page
    assert not WorkloadFile.objects.exists()


@pytest.mark.parametrize("name", ["../spec.json", "a/b", ".hidden", "ca.pem", "a b", "x" * 101])
def test_a_name_is_a_name_and_no_path(user_client: Client, name: str) -> None:
    send(user_client, PROMPTS, name=name)
    assert not WorkloadFile.objects.exists()


def test_a_name_is_taken_once(user_client: Client) -> None:
    send(user_client, PROMPTS, name="a")
    assert "already exists" in send(user_client, PROMPTS, name="a")


def test_one_file_and_all_together_have_a_limit(user_client: Client, settings: Any) -> None:
    settings.WORKLOAD_FILE_MB = 30 / 1e6
    assert "WORKLOAD_FILE_MB" in send(user_client, PROMPTS)
    settings.WORKLOAD_FILE_MB, settings.WORKLOAD_FILES_MB = 1, 60 / 1e6
    send(user_client, PROMPTS, name="a")
    assert "WORKLOAD_FILES_MB" in send(user_client, PROMPTS, name="b")
    assert WorkloadFile.objects.count() == 1


def test_a_file_that_is_needed_stays_and_others_go_with_what_they_hold(user_client: Client, tmp_path: Any) -> None:
    send(user_client, PROMPTS, name="a.jsonl")
    kept = WorkloadFile.objects.get()
    of = factories.benchmark(name="night")
    ask(of, source={"kind": "prompts", "file": "a.jsonl"})
    page = user_client.post(f"/benchmarks/files/{kept.pk}/delete", follow=True).content.decode()
    assert "a.jsonl is still needed by benchmark night" in page
    ask(of, source={"kind": "synthetic"})
    run = factories.queued_run(of)
    run.spec["files"] = {"a.jsonl": kept.sha256}
    run.save()
    page = user_client.post(f"/benchmarks/files/{kept.pk}/delete", follow=True).content.decode()
    assert f"needed by Run {run.pk}" in page
    run.delete()
    user_client.post(f"/benchmarks/files/{kept.pk}/delete")
    assert not WorkloadFile.objects.exists()
    assert not list((tmp_path / "workloads").iterdir())
