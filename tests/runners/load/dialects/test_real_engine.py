"""The dialects that llama.cpp speaks, against a real llama.cpp server."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runners.load.answer import Answer
from runners.load.check import exchange_once
from runners.load.target import Requests, base_endpoint, destination
from runners.probe import probe
from runners.spec import Dialect, Target, Timeouts, Workload
from tests.services.engine import counted, embedded_engine

ROOT = Path(__file__).resolve().parents[4]
TIMEOUTS = Timeouts(connect_s=5, first_byte_s=60, idle_s=60, total_s=120)
SPOKEN = [
    Dialect.OPENAI_CHAT,
    Dialect.OPENAI_COMPLETIONS,
    Dialect.OPENAI_RESPONSES,
    Dialect.ANTHROPIC_MESSAGES,
    Dialect.LLAMACPP_COMPLETION,
]
PROMPT = "one two three four five six seven eight nine ten"


def row_of(url: str, model: str, dialect: Dialect, tokens: int, **workload: Any) -> dict[str, Any]:
    target = Target(url, model, dialect)
    requests = Requests(base_endpoint(url, dialect), target, Workload(**workload))
    exchange = exchange_once(destination(requests.endpoint), TIMEOUTS, requests.build(PROMPT, tokens), tokens)
    return Answer(exchange, requests.form, streams=requests.streams).row()


def bench(url: str, out: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "runners", "bench", "--url", url, "--out", str(out), "--progress", "json"]
    command += ["--power", "none", "--calibrate", "0", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "summary.json").read_text())


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", SPOKEN)
def test_a_real_answer_is_read_whole_and_its_tokens_are_the_servers(engine, dialect, stream):
    url, model = engine
    before = counted(url, "tokens_predicted_total")
    row = row_of(url, model, dialect, 12, stream=stream)
    assert (row["outcome"], row["detail"], row["flags"]) == ("ok", "", [])
    assert row["output_tokens"] == 12 == counted(url, "tokens_predicted_total") - before
    assert row["events"] in (range(8, 13) if stream else (0,))  # an emoji takes several tokens and is one event
    assert (row["first_token_ns"] is None) is not stream
    assert 10 <= row["input_tokens"] <= 60
    assert row["response_model"] == model


def test_the_servers_own_times_lie_within_ours(engine):
    row = row_of(*engine, Dialect.LLAMACPP_COMPLETION, 24)
    assert (row["first_token_ns"] - row["sent_ns"]) / 1e6 >= row["server_prompt_ms"] > 0
    assert (row["last_token_ns"] - row["first_token_ns"]) / 1e6 == pytest.approx(row["server_decode_ms"], rel=0.25)
    assert row["event_tokens"] == [1] * 24


def test_two_choices_of_two_adapters_are_measured_and_each_row_names_its_own(engine, tmp_path):
    summary = bench(
        engine[0], tmp_path, "--choices", "2", "--models", "base=1,lora-a=1", "--requests", "6", "--concurrency", "2",
        "--input-tokens", "64", "--output-tokens", "6",
    )  # fmt: skip
    rows = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    assert {row["model"] for row in rows} == {"base", "lora-a"}
    assert summary["target"]["model"] == "base, lora-a"
    for row in rows:
        assert (row["outcome"], row["output_tokens"], row["events"]) == ("ok", 12, 12)
        assert sorted(row["event_choices"]) == [0] * 6 + [1] * 6


@pytest.mark.parametrize(("task", "dialect"), [("embed", "openai-embeddings"), ("rerank", "rerank")])
def test_answers_without_tokens_have_latency_and_throughput_only(tmp_path, task, dialect):
    with embedded_engine(tmp_path, "--option", f"task={task}") as url:
        said = probe(Target(url, dialect=Dialect(dialect)))
        summary = bench(url, tmp_path / "out", "--dialect", dialect, "--requests", "5", "--input-tokens", "64")
    assert (said["usable"], said["engine"]) == (True, "llama.cpp")
    assert {check["name"] for check in said["checks"]} == {"models", "engine", "length", "metrics"}
    stage = summary["stages"][0]
    assert (stage["ok"], stage["verdict"], stage["flags"]) == (5, "ok", {})
    assert {"e2e_ms", "request_per_s", "input_tokens_per_s", "input_tokens"} <= set(stage["metrics"])
    assert not {"ttft_ms", "tpot_ms", "itl_ms", "output_tokens", "output_tokens_per_s"} & set(stage["metrics"])


def test_whole_answers_have_no_time_to_first_token(engine, tmp_path):
    summary = bench(engine[0], tmp_path, "--no-stream", "--requests", "4", "--output-tokens", "4")
    stage = summary["stages"][0]
    assert stage["ok"] == 4
    assert "not_streaming" not in stage["flags"]
    assert {"e2e_ms", "output_tokens_per_s"} <= set(stage["metrics"])
    assert not {"ttft_ms", "tpot_ms", "itl_ms"} & set(stage["metrics"])


@pytest.mark.parametrize("dialect", SPOKEN)
def test_probe_finds_what_the_dialect_gives(engine, dialect):
    url, model = engine
    said = probe(Target(url, dialect=Dialect(dialect)))
    assert (said["usable"], said["text"], said["engine"], said["models"]) == (True, "", "llama.cpp", [model])
    assert all(check["ok"] for check in said["checks"]), said["checks"]


def test_probe_of_a_dialect_that_the_server_does_not_speak_says_so(engine):
    said = probe(Target(engine[0], dialect=Dialect.OLLAMA_CHAT))
    assert (said["usable"], said["code"]) == (False, "http_error")
    assert "404" in said["text"]
