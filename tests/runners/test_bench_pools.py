"""``bench --pool`` on scripted GPUs: prefill and decode have energies of their own in the results."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.services import nvml
from tests.services.misbehaving import good, serving

ROOT = Path(__file__).resolve().parents[2]
ASKED = (
    "--power", "nvml", "--idle", "0", "--calibrate", "0", "--duration", "4", "--concurrency", "1", "--progress", "json",
)  # fmt: skip


@pytest.fixture
def bench(tmp_path):
    """Runs it with these pools beside three GPUs of 100, 200 and 300 W; gives its summary."""
    library = nvml.built(tmp_path)
    script = "gpus 3\n" + "".join(f"constant {gpu} {100_000 * (gpu + 1)}\n" for gpu in range(3))
    (tmp_path / "gpus").write_text(script)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    environ |= {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(tmp_path / "gpus")}

    def answer(wire):
        time.sleep(0.05)
        good(wire)

    def run(*pools):
        out = tmp_path / "out"
        with serving({"m": answer}) as server:
            command = [sys.executable, "-m", "runners", "bench", "--url", server.url, "--model", "m", "--out", str(out)]
            options = [part for pool in pools for part in ("--pool", pool)]
            subprocess.run(
                [*command, *ASKED, *options], cwd=ROOT, env=environ, capture_output=True, timeout=120, check=False
            )
        return json.loads((out / "summary.json").read_text())

    return run


def test_each_pool_has_its_energy_and_they_sum_to_the_whole(bench):
    summary = bench("prefill=2", "decode")
    ledger = summary["stages"][0]["energy"]
    lines = [(layer["pool"], layer["energy_j"]) for layer in ledger["layers"]]
    assert [pool for pool, _ in lines] == ["prefill", "decode"]
    assert [energy_j / ledger["window_s"] for _, energy_j in lines] == [pytest.approx(300, rel=0.05)] * 2
    assert ledger["it_j"] == sum(energy_j for _, energy_j in lines)
    assert summary["spec"]["power"]["pools"] == [{"name": "prefill", "gpus": ["2"]}, {"name": "decode", "gpus": []}]


def test_a_pool_that_is_not_there_leaves_the_run_without_energy_and_says_why(bench):
    summary = bench("prefill=7", "decode")
    assert summary["stages"][0]["energy"]["it_j"] is None
    assert "wh_per_query" not in summary["stages"][0]["metrics"]
    assert "7 of prefill is none of the GPUs that were sampled" in summary["power"]["notes"][0]["text"]
