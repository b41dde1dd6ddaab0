"""Every kind of workload and load, from the form of the application to the real instrument on the real engine."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from observatory.benchmarks import files
from observatory.benchmarks.models import Benchmark, WorkloadFile
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs import launch
from observatory.runs.models import Run
from tests.services.engine import embedded_engine
from tests.services.misbehaving import good
from tests.services.proxy import Proxy
from tests.services.tls import Authority, serving_tls

PROMPTS = b'"Say one."\n{"prompt": "Say two.", "output_tokens": 3}\n'
CHATS = json.dumps(
    [{"conversations": [{"from": "human", "value": text}, {"from": "gpt", "value": "Yes."}]} for text in ("Hi?", "Ho?")]
).encode()
TRACE = b"".join(
    b'{"timestamp": %d, "input_length": 60, "output_length": 3, "hash_ids": [7, %d]}\n' % (200 * n, n) for n in range(4)
)
LENGTHS = b"30\n40\n"
FILES = {"prompts.jsonl": ("prompts", PROMPTS), "chats.json": ("chats", CHATS), "trace.jsonl": ("mooncake", TRACE),
         "lengths.txt": ("lengths", LENGTHS)}  # fmt: skip


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_engine(tmp_path_factory.mktemp("engine")) as url:
        yield url


@pytest.fixture
def client(database_url: str, settings: Any, tmp_path: Path) -> Client:
    """Someone who is logged in, with a broker that is away: the test itself is the worker."""
    settings.VAR_DIR, settings.MEDIA_ROOT = tmp_path, tmp_path / "media"
    settings.RUN_COMMAND = [sys.executable, "-m", "runners", "bench"]
    client = Client()
    client.force_login(User.objects.create_user("ada"))
    return client


def deployment(url: str, **wire: Any) -> Deployment:
    endpoint = Endpoint.objects.create(name="e", url=url, model="m", **wire)
    return Deployment.objects.create(name="d", endpoint=endpoint)


def form(of: Deployment, **changes: Any) -> dict[str, Any]:
    asked = {"levels": "2", "requests": "4", "calibrate_s": "0", "input_tokens": "40", "output_tokens": "4"}
    fixed = {"name": "b", "deployment": of.pk, "arrivals": "closed", "power_source": "none", "start": "yes"}
    return {**fixed, **asked, **changes}


def measured(client: Client, asked: dict[str, Any]) -> Run:
    page = client.post("/benchmarks/new", asked)
    assert page.status_code == 302, page.context["form"].errors
    run = Run.objects.get()
    launch.execute(run.pk)
    run.refresh_from_db()
    return run


def rows(run: Run) -> list[dict[str, Any]]:
    with run.requests_file.open() as file:
        return list(pq.read_table(file).to_pylist())


def upload(name: str) -> WorkloadFile:
    kind, data = FILES[name]
    return files.keep(SimpleUploadedFile(name, data), "", kind, User.objects.get())


@pytest.mark.parametrize(
    ("changes", "name", "told"),
    [
        ({"input_tokens": "uniform:low=30,high=60"}, "", "made-up"),
        ({"input_tokens": "file:lengths.txt"}, "lengths.txt", "made-up"),
        ({"kind": "prefixes", "prefix_groups": "2", "prefix_tokens": "20"}, "", "group"),
        ({"kind": "conversations", "turns": "2", "think_s": "0"}, "", "questions"),
        ({"kind": "conversations", "source_file": "chats.json", "think_s": "0"}, "chats.json", "chats.json"),
        ({"kind": "agents", "calls": "2", "result_tokens": "16", "tool_s": "0", "system_tokens": "20"}, "", "call"),
        ({"kind": "prompts", "source_file": "prompts.jsonl"}, "prompts.jsonl", "2 prompts of prompts.jsonl"),
        ({"kind": "sharegpt", "source_file": "chats.json"}, "chats.json", "2 chats of chats.json"),
        (
            {"kind": "trace", "source_file": "trace.jsonl", "arrivals": "replay", "requests": ""},
            "trace.jsonl",
            "4 requests of trace.jsonl",
        ),
        ({"arrivals": "gamma", "cv": "2", "levels": "20"}, "", "made-up"),
        ({"levels": "1", "input_sweep": "40, 50", "repeats": "2", "requests": "2"}, "", "made-up"),
        ({"answers": "whole"}, "", "made-up"),
        ({"find": "saturation", "levels": "1, 2", "max_stages": "2"}, "", "made-up"),
    ],
)
def test_the_form_leads_to_a_run_of_that_kind(
    client: Client, engine_url: str, changes: dict[str, str], name: str, told: str
) -> None:
    stored = upload(name) if name else None
    run = measured(client, form(deployment(engine_url), **changes))
    assert run.status == "finished", run.reason
    assert run.summary
    assert told in run.summary["workload"]["sent"]
    assert all(stage.ok == stage.planned for stage in run.stages.all())
    assert run.spec["files"] == ({name: stored.sha256} if stored else {}) == run.summary["spec"]["files"]
    assert {"conversations": 4, "agents": 4}.get(changes.get("kind", ""), 1) <= len(rows(run))


def test_a_file_that_was_changed_in_storage_is_not_measured(client: Client, engine_url: str) -> None:
    stored = upload("prompts.jsonl")
    Path(stored.file.path).write_bytes(b'"Something else."\n')
    run = measured(client, form(deployment(engine_url), kind="prompts", source_file="prompts.jsonl"))
    assert (run.status, run.reason_code) == ("failed", "workload_file")
    assert "is not what was uploaded" in run.reason


def test_a_file_that_is_gone_fails_the_run_in_words(client: Client, engine_url: str) -> None:
    stored = upload("prompts.jsonl")
    client.post("/benchmarks/new", form(deployment(engine_url), kind="prompts", source_file="prompts.jsonl"))
    WorkloadFile.objects.filter(pk=stored.pk).delete()
    run = Run.objects.get()
    launch.execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.reason_code) == ("failed", "workload_file")
    assert "was deleted" in run.reason


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_an_endpoint_with_its_own_authority_client_certificate_proxy_and_fields_is_measured(
    client: Client, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: dict[str, int] = {}
    furnish = launch.work.furnish

    def watched(run: Run, directory: Path, **changes: Any) -> Path:
        spec = furnish(run, directory, **changes)
        modes.update({path.name: path.stat().st_mode & 0o777 for path in (directory / "files").iterdir()})
        return spec

    monkeypatch.setattr(launch.work, "furnish", watched)
    pem = authority.certificate("client").read_text()
    proxy = Proxy()
    with serving_tls({"m": good}, authority.certificate(), clients=authority.ca) as server:
        of = deployment(
            server.url,
            ca_pem=authority.ca.read_text(),
            client_pem=pem,
            proxy=proxy.url,
            api_key="sk-one-two-three",
            api_key_header="x-secret",
            extra_headers={"X-Team": "search"},
            extra_body={"top_k": 20},
        )
        run = measured(client, form(of))
    proxy.close()
    assert run.status == "finished", run.reason
    assert run.stages.get().ok == 4
    assert proxy.asked
    assert server.requests[-1]["top_k"] == 20
    assert modes == {"ca.pem": 0o600, "client.pem": 0o600}
    assert not list((tmp_path / "work").iterdir())
    kept = json.dumps([run.spec, run.summary, run.setup])
    assert "BEGIN" not in kept
    assert "sk-one" not in kept
    assert run.spec["target"]["client_cert_file"] == "client.pem"


def test_a_run_that_was_queued_for_another_proxy_is_refused(client: Client) -> None:
    of = deployment("http://127.0.0.1:9", api_key="sk-one-two-three")
    client.post("/benchmarks/new", form(of))
    Endpoint.objects.update(proxy="http://127.0.0.1:8")
    run = Run.objects.get()
    launch.execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.reason_code) == ("failed", "endpoint_changed")
    assert Benchmark.objects.exists()
