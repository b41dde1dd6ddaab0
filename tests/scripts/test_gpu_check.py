"""The GPU check from end to end: scripted GPU, real binding, real sampler, real llama.cpp server; and what stops it."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.engines.packaged import MODEL_NAME
from tests.services import nvml
from tests.services.engine import embedded_engine

ROOT = Path(__file__).parents[2]
CHECK = str(ROOT / "scripts/gpu_check.py")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return nvml.built(tmp_path_factory.mktemp("nvml"))


def check(out, *more, library=None, script="gpus 1\n", limit_s=150):
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA_", "LD_LIBRARY"))}
    if library:
        (library / "gpus").write_text(script)
        environ |= {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(library / "gpus")}
    return subprocess.run(
        [sys.executable, CHECK, "--out", str(out), *more],
        env=environ, cwd=out.parent, capture_output=True, text=True, timeout=limit_s, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def checked(library, tmp_path_factory):
    """The whole check, short; the GPU's power rises all the while."""
    out = tmp_path_factory.mktemp("check") / "out"
    script = f"gpus 1\nt0_ns {time.monotonic_ns()}\npoints 0 0:100000 100:500000\n"
    with embedded_engine(out.parent) as url:
        done = check(
            out, "--url", url, "--model", MODEL_NAME, "--levels", "1,2", "--seconds", "3", "--idle", "2.5",
            "--input-tokens", "40", "--output-tokens", "4", library=library, script=script,
        )  # fmt: skip
    return done, json.loads((out / "check.json").read_text()), out


def test_a_gpu_that_measures_right_passes_and_says_so(checked):
    done, result, _ = checked
    failed = [one for one in result["findings"] if not one["holds"] and one["name"] != "sampler's CPU"]
    assert failed == [], done.stdout + done.stderr
    assert result["trouble"] == ""
    assert done.stdout.count("holds") >= 14


def test_the_periods_are_probed_idle_and_loaded(checked):
    texts = [one["text"] for one in checked[1]["findings"] if one["name"].startswith("update periods")]
    assert len(texts) == 2
    assert all("energy_mj" in text and "power_instant_mw" in text for text in texts)


def test_the_killed_sampler_costs_the_energy_and_nothing_else(checked):
    summary = json.loads((checked[2] / "fault/summary.json").read_text())
    stage = summary["stages"][0]
    assert (stage["energy"]["it_j"], stage["energy"]["reasons"][0]["code"]) == (None, "sampler_lost")
    assert stage["ok"] > 0
    assert "wh_per_query" not in stage["metrics"]


def test_everything_raw_is_kept(checked):
    out = checked[2]
    for name in ("run/power.parquet", "run/requests.parquet", "fault/power.parquet", "power_idle.json", "check.json"):
        assert (out / name).stat().st_size > 0


def test_a_counter_that_lies_fails_the_check(library, tmp_path):
    sys.path.insert(0, str(ROOT / "scripts"))
    from gpu_check import judge_stage

    instrument = {"ratio": 1.2, "verdict": "disagree"}
    stage = {"load": {"value": 4}, "ok": 9, "failed": 0, "reasons": [], "metrics": {"power_w": {"mean": 300.0}},
             "energy": {"it_j": 9000.0, "reasons": [], "instruments": [instrument]}}  # fmt: skip
    assert [one["name"] for one in judge_stage(stage, 90.0) if not one["holds"]] == [
        "concurrency 4: counter and integral"
    ]


def test_without_a_gpu_it_ends_in_words(tmp_path):
    done = check(tmp_path / "out")
    assert done.returncode == 2
    assert "no GPU can be measured" in done.stderr
    assert json.loads((tmp_path / "out/check.json").read_text())["trouble"] in done.stderr


def test_a_server_that_does_not_start_ends_it_in_words(library, tmp_path):
    done = check(tmp_path / "out", library=library)
    assert done.returncode == 2
    assert "the server did not start" in done.stderr
    assert "torch" in done.stderr


def test_a_server_that_hangs_ends_it_by_the_limit(library, tmp_path):
    from tests.services.misbehaving import serving

    with serving({"m": lambda wire: time.sleep(30)}) as hanging:
        begun = time.monotonic()
        done = check(tmp_path / "out", "--url", hanging.url, "--model", "m", "--limit", "15", library=library)
    assert time.monotonic() - begun < 45
    assert done.returncode == 2
    assert "did not end" in done.stderr
