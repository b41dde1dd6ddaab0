"""Our counts against those of a real vLLM on this machine's CPU: prompt, generated, cached, drafted, accepted tokens.

``make studies`` runs it; it needs ``make install-vllm`` and about two minutes.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from runners.engines import vllm
from runners.engines.launch import RunningEngine, launch
from runners.engines.options import Kind
from runners.engines.packaged import MODEL_NAME
from runners.engines.recipe import Recipe
from runners.engines.vllm_options import OPTIONS
from runners.server.series import Span, increase, series

ROOT = Path(__file__).resolve().parents[2]
DRAFTED_AT_ONCE = 4
RECIPE = {
    "engine": "vllm",
    "model": f"{MODEL_NAME}:HF",
    "options": {
        "enforce-eager": True,
        "max-model-len": 1024,
        "max-num-seqs": 8,
        "enable-prefix-caching": True,
        "enable-prompt-tokens-details": True,
        "speculative-config": {
            "method": "ngram",
            "num_speculative_tokens": DRAFTED_AT_ONCE,
            "prompt_lookup_max": 4,
            "prompt_lookup_min": 2,
        },
    },
    "environment": {"VLLM_CPU_KVCACHE_SPACE": "1"},
}

pytestmark = [
    pytest.mark.skipif(os.environ.get("STUDIES") != "1", reason="takes minutes: make studies"),
    pytest.mark.skipif(not vllm.python().exists(), reason="needs vLLM: make install-vllm"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    log = tmp_path_factory.mktemp("vllm") / "log"
    with launch(Recipe.from_json(RECIPE), log) as engine:
        yield engine


def counters(server: RunningEngine) -> dict[str, float]:
    """Totals of the page, added up over labels, read without the product's own reader."""
    with urllib.request.urlopen(server.metrics_url, timeout=10) as response:
        page = response.read().decode()
    found: dict[str, float] = {}
    for name, value in re.findall(r"^vllm:(\w+_total)\{[^}]*\} (\S+)$", page, re.M):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def bench(server: RunningEngine, out: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "runners", "bench", "--url", server.url, "--model", server.model]
    options = (*options, "--power", "none", "--calibrate", "0", "--warmup", "0", "--out", str(out))
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode in (0, 4), done.stderr
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


@pytest.mark.parametrize("concurrency", ["1", "4"])
def test_the_tokens_that_vllm_counts_are_ours(server: RunningEngine, tmp_path: Path, concurrency: str) -> None:
    before = counters(server)
    summary = bench(
        server, tmp_path, "--concurrency", concurrency, "--requests", "12", "--output-tokens", "48",
        "--seed", concurrency, "--workload", "prefixes", "--prefix-groups", "2", "--prefix-tokens", "192",
        "--input-tokens", "256",
    )  # fmt: skip
    after = counters(server)
    (stage,) = summary["stages"]
    assert (stage["ok"], stage["failed"]) == (12, 0)
    agreement = {item["key"]: item for item in stage["server"]["agreement"]}
    assert {key: item["verdict"] for key, item in agreement.items()} == dict.fromkeys(agreement, "ok")
    assert {"prompt_tokens", "cached_tokens", "generated_tokens"} <= set(agreement)

    grown = {name: after[name] - before.get(name, 0) for name in after}
    checks = grown["request_success_total"] - 12
    assert 0 < checks < 4  # the requests that ask whether the endpoint can be measured, of two tokens at most
    assert 0 <= grown["generation_tokens_total"] - agreement["generated_tokens"]["client"] <= 2 * checks
    assert grown["prompt_tokens_cached_total"] == agreement["cached_tokens"]["client"]

    drafted, accepted = recorded(summary, tmp_path, "drafted_tokens"), recorded(summary, tmp_path, "accepted_tokens")
    assert drafted == grown["spec_decode_num_draft_tokens_total"] > 0
    assert accepted == grown["spec_decode_num_accepted_tokens_total"] > 0
    # A step's tokens come as one event: what goes beyond one for each event was drafted and accepted. The end of its
    # answer may cut a step off; on a busy machine steps of several requests may come as one event.
    rows = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    beyond = sum(row["output_tokens"] - len(row["event_offsets_ns"]) for row in rows)
    assert beyond >= accepted - DRAFTED_AT_ONCE * len(rows)
    if concurrency == "1":
        assert beyond <= accepted + len(rows)


def recorded(summary: dict[str, Any], out: Path, key: str) -> float | None:
    """How much a counter grew from before the first stage until after the last, by what the run kept."""
    marks = summary["server"]["marks_ns"]
    return increase(series(pq.read_table(out / "server.parquet"), key), Span(marks[0], marks[-1]))


def test_every_option_of_vllm_is_one_of_the_installed_version() -> None:
    command = [*vllm.server(), "--help=all"]
    environment = vllm.environment(vllm.installed(), (), {}, local=True) | {"PATH": os.environ["PATH"]}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300).stdout
    for option in OPTIONS:
        assert re.search(rf"--{option.name}(?![\w-])", told), option.name
        if option.kind is Kind.SWITCH:
            assert f"--no-{option.name}" in told


def test_ending_it_leaves_none_of_its_processes(server: RunningEngine) -> None:
    """Last in this file: vLLM keeps engine and workers in processes of their own."""
    family = descendants(server.process.pid)
    assert len(family) >= 3
    server.stop()
    assert [pid for pid in family if Path(f"/proc/{pid}").exists()] == []


def descendants(pid: int) -> list[int]:
    """Of a process, with itself."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found
