"""``python -m runners bench`` against a server that is not on this machine: here one that only a proxy reaches."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.services.misbehaving import good, serving
from tests.services.proxy import proxying

ROOT = Path(__file__).resolve().parents[2]
FEW = ("--duration", "2.5", "--idle", "2.2", "--calibrate", "0", "--power", "estimate", "--input-tokens", "8")


def bench(out: Path, *more: str) -> tuple[dict, str]:
    done = subprocess.run(
        [sys.executable, "-m", "runners", "bench", "--model", "m", "--out", str(out), *FEW, *more],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((out / "summary.json").read_bytes()), done.stdout


def slow(wire):
    time.sleep(0.05)
    good(wire)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    with serving({"m": slow}) as server, proxying() as proxy:
        return bench(tmp_path_factory.mktemp("elsewhere"), "--url", server.url, "--proxy", proxy.url)


def test_the_energy_of_a_server_elsewhere_is_never_that_of_the_load_host(elsewhere):
    summary, _ = elsewhere
    stage = summary["stages"][0]
    assert (stage["energy"], summary["energy"]) == (None, None)
    assert not {"power_w", "wh_per_query", "j_per_output_token"} & set(stage["metrics"])
    assert summary["power"]["devices"] == []
    assert summary["power"]["idle_w"] is None
    assert summary["valid"]


def test_the_load_hosts_own_energy_is_recorded_beside(elsewhere):
    client = elsewhere[0]["stages"][0]["client_energy"]
    assert client["power_w"] > 0
    assert client["energy_j"] == pytest.approx(client["power_w"] * elsewhere[0]["stages"][0]["window"]["seconds"])
    assert client["mark"] == "modelled"


def test_the_run_says_what_was_not_measured_and_what_to_do(elsewhere):
    summary, said = elsewhere
    note = summary["power"]["notes"][0]
    assert note["code"] == "server_elsewhere"
    assert note["text"] in said
    assert "celery -A observatory worker -Q power.NAME" in said


def test_who_says_that_the_server_is_here_gets_its_energy(tmp_path):
    with serving({"m": slow}) as server, proxying() as proxy:
        summary, _ = bench(tmp_path, "--url", server.url, "--proxy", proxy.url, "--server-here", "--traffic", "1000")
    stage = summary["stages"][0]
    assert stage["energy"]["boundary"] == "cpu"
    assert stage["client_energy"] is None
    assert stage["energy_duty"]["queries_per_hour"] == 1000
    assert "fault" not in summary["power"]
