import hashlib
from pathlib import Path
from typing import Any

import pytest

from observatory.benchmarks.models import Benchmark, WorkloadFile
from tests.api.conftest import Caller
from tests.factories import benchmark
from tests.services.small_disk import small_disk

PROMPTS = b'"Say one."\n'


def test_a_file_is_uploaded_named_by_a_benchmark_read_back_and_kept_while_it_is_needed(as_user: Caller) -> None:
    made = as_user.upload("/workload-files", PROMPTS, kind="prompts", name="p.jsonl")
    assert made.status_code == 201
    key = made.json()["id"]
    assert made.json()["sha256"] == hashlib.sha256(PROMPTS).hexdigest()
    assert made.json()["facts"] == {"entries": 1}
    content = as_user.get(f"/workload-files/{key}/content")
    assert b"".join(content.streaming_content) == PROMPTS
    workload = {"source": {"kind": "prompts", "file": "p.jsonl"}}
    sent = {"name": "new", "deployment_id": benchmark().deployment_id, "workload": workload, "load": {"requests": 2}}
    of = as_user.post("/benchmarks", sent).json()
    assert of["workload"]["source"] == workload["source"]
    refused = as_user.delete(f"/workload-files/{key}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in_use")
    as_user.delete(f"/benchmarks/{of['id']}")
    assert as_user.delete(f"/workload-files/{key}").status_code == 204
    assert not WorkloadFile.objects.exists()


def test_an_upload_that_finds_the_disk_full_is_told_where_to_free_space(as_user: Caller, tmp_path: Path) -> None:
    with small_disk(tmp_path, 16):
        answer = as_user.upload("/workload-files", PROMPTS * 4000, kind="prompts", name="p.jsonl")
    assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
    assert f"Free space at {tmp_path}." in answer.json()["fix"]
    assert not WorkloadFile.objects.exists()


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"kind": "lengths"}, "file", "line 1"),
        ({"kind": "novel"}, "kind", "prompts"),
        ({"kind": "prompts", "name": "../etc"}, "name", "Use letters"),
        ({"kind": "prompts", "name": "a\x00b"}, "name", ""),
    ],
)
def test_a_bad_upload_is_refused_with_its_field(
    as_user: Caller, fields: dict[str, str], field: str, words: str
) -> None:
    answer = as_user.upload("/workload-files", PROMPTS, **fields)
    assert answer.status_code == 422
    assert words in {fault["field"]: fault["problem"] for fault in answer.json()["fields"]}[field]


def test_a_taken_name_is_a_conflict(as_user: Caller) -> None:
    for status in (201, 409):
        assert as_user.upload("/workload-files", PROMPTS, kind="prompts").status_code == status


@pytest.mark.parametrize(
    ("workload", "field", "words"),
    [
        ({"source": {"kind": "prompts", "file": "/etc/passwd"}}, "workload.source.file", "no workload file"),
        ({"tokenizer": "../t.json"}, "workload.tokenizer", "no workload file"),
        ({"source": {}}, "workload.source.kind", "must be one of"),
        ({"source": {"kind": "agents", "calls": 0}}, "workload.source.calls", "between 1"),
        ({"input_tokens": {"shape": "uniform"}}, "workload.input_tokens", "give low and high"),
        ({"input_tokens": 0}, "workload.input_tokens", "between 1 and 2000000"),
        ({"seed": 2**70}, "workload.seed", "64 bits"),
        ({"models": [{"name": "a\x00"}]}, "workload.models[0].name", "no text can have"),
        ({"models": [{"name": "\ud800"}]}, "workload.models[0].name", "no text can have"),
        ({"images": {"count": 1}, "source": {"kind": "agents"}}, "workload.images", "single prompts only"),
        (None, "workload", "null"),
    ],
)
def test_a_workload_that_could_not_run_is_refused_with_its_field(
    as_user: Caller, workload: Any, field: str, words: str
) -> None:
    of = benchmark()
    answer = as_user.patch(f"/benchmarks/{of.pk}", {"workload": workload})
    assert answer.status_code == 422, answer.json()
    assert words in {fault["field"]: fault["problem"] for fault in answer.json()["fields"]}[field]
    assert Benchmark.objects.get().workload == Benchmark.objects.get(pk=of.pk).workload


def test_the_description_tells_every_kind_of_workload_and_load(as_user: Caller) -> None:
    shapes = as_user.get("/openapi.json").json()["components"]["schemas"]
    for name in ("Workload", "Length", "Synthetic", "PromptFile", "ShareGpt", "Prefixes", "Conversations", "Agents"):
        assert shapes[name]["properties"], name
    assert {"trace"} == {shapes["Trace"]["properties"]["kind"]["const"]}
    assert "search" in shapes["BenchmarkIn"]["properties"]["load"]["properties"]
