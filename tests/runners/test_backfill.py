"""Power for a run that has ended, on the files that a real run left."""

import json
import shutil
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.services.instruments import WATTS, Prometheus, serving, smi_log
from tests.services.misbehaving import good
from tests.services.misbehaving import serving as serving_llm

ROOT = Path(__file__).resolve().parents[2]


def runners(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "runners", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )


def paced(wire):
    time.sleep(0.2)
    good(wire)


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Results of a run without power."""
    out = tmp_path_factory.mktemp("ended") / "results"
    with serving_llm({"m": paced}) as server:
        done = runners(
            "bench", "--url", server.url, "--model", "m", "--out", str(out), "--concurrency", "2", "--duration", "3",
            "--power", "none", "--calibrate", "0", "--no-metrics",
        )  # fmt: skip
    assert (out / "summary.json").exists(), done.stdout + done.stderr
    return out


@pytest.fixture
def results(ended, tmp_path):
    return Path(shutil.copytree(ended, tmp_path / "results"))


def summary(folder):
    return json.loads((folder / "summary.json").read_text())


def measured_j(folder):
    window = summary(folder)["stages"][0]["window"]
    return WATTS * (window["end_ns"] - window["start_ns"]) / 1e9


def test_a_log_gives_a_run_its_energy_afterwards(results):
    before = summary(results)
    ended_s = datetime.fromisoformat(before["ended_at"]).timestamp()
    smi_log(results / "smi.csv", 120, end_s=ended_s + 60)
    done = runners("fill-power", str(results), "--power", f"csv:{results / 'smi.csv'},zone=UTC")
    after = summary(results)
    stage = after["stages"][0]
    assert done.returncode == 0, done.stderr
    assert stage["energy"]["it_j"] == pytest.approx(measured_j(results), rel=0.001)
    assert stage["metrics"]["power_w"]["mean"] == pytest.approx(WATTS, rel=0.001)
    assert {"wh_per_query", "j_per_output_token"} <= set(stage["metrics"])
    assert after["power"]["source"] == "csv"
    assert pq.read_table(results / "power.parquet").num_rows > 30
    assert "J (accelerator)" in done.stdout
    same = [name for name in before if name not in ("power", "stages", "levels", "attribution", "energy")]
    assert [before[name] for name in same] == [after[name] for name in same]


def test_filled_twice_is_filled_once(results):
    with serving(Prometheus()) as server:
        for _ in range(2):
            done = runners("fill-power", str(results), "--power", f"prometheus:{server.url},step_s=0.1,query=p")
            assert done.returncode == 0, done.stderr
    found = summary(results)
    assert [device["id"] for device in found["power"]["devices"]] == ["GPU-bbbb"]
    assert found["stages"][0]["energy"]["it_j"] == pytest.approx(measured_j(results), rel=0.001)


def test_without_power_for_that_time_nothing_is_changed(results):
    before = [(path.name, path.read_bytes()) for path in sorted(results.iterdir())]
    with serving(Prometheus(gaps=((0.0, 1e12),))) as server:
        done = runners("fill-power", str(results), "--power", f"prometheus:{server.url},query=up")
    assert done.returncode == 2
    assert "up has no data from" in done.stderr
    assert [(path.name, path.read_bytes()) for path in sorted(results.iterdir())] == before


@pytest.mark.parametrize(
    ("source", "words"), [("estimate", "tells of now only"), ("csv:none,zone=UTC", "cannot be read")]
)
def test_what_cannot_fill_is_said(results, source, words):
    done = runners("fill-power", str(results), "--power", source)
    assert (done.returncode, words in done.stderr) == (2, True)


def test_a_folder_without_results_is_said(tmp_path):
    done = runners("fill-power", str(tmp_path), "--power", "csv:x.csv,zone=UTC")
    assert (done.returncode, "holds no results" in done.stderr) == (2, True)
