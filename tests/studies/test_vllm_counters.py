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
from runners.engines.packaged import MODEL_NAME
from runners.engines.recipe import Recipe

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

    rows = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    print({name: after[name] - before[name] for name in sorted(after) if after[name] != before[name]})
    print(
        {key: item["client"] for key, item in agreement.items()}, stage["server"]["counters"], stage["server"]["shares"]
    )
    print("tokens beyond events", sum(row["output_tokens"] - len(row["event_offsets_ns"]) for row in rows))
