import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from runners.load.records import read_spool
from runners.meters import JsonMeter, SmiLog
from runners.power.devices import SourceError
from runners.power.energy import window_ledger
from runners.power.sampler import Sampler
from runners.power.samples import SCHEMA
from runners.spec import Power
from tests.services.instruments import WATTS, serving, shelly, smi_log

ROOT = Path(__file__).parents[3]
ESTIMATE = Power(source="estimate", cpu_idle_w=100, cpu_max_w=300)
S = 1_000_000_000


def samples(out):
    return read_spool(out / "power.arrow", SCHEMA)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def lost(sampler):
    """Whether its account ends with the note that the sampler was lost."""
    return sampler.describe()["notes"][-1]["code"] == "sampler_lost"


def pid_of(sampler):
    return sampler._process.pid


def test_a_window_that_ends_with_the_call_of_stop_has_its_energy(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    time.sleep(0.6)
    start_ns = time.monotonic_ns()
    time.sleep(2.5)
    end_ns = time.monotonic_ns()
    sampler.stop()
    ledger = window_ledger(samples(tmp_path), start_ns, end_ns, description=sampler.describe())
    assert 95 <= ledger["it_j"] / ((end_ns - start_ns) / 1e9) <= 315  # idle and full watts, and the edges of ticks
    assert (ledger["mark"], ledger["boundary"], ledger["layers"][0]["method"]) == ("modelled", "cpu", "model")


def test_ticks_keep_an_absolute_schedule(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    time.sleep(4)
    sampler.stop()
    t_ns = samples(tmp_path)["t_ns"].to_numpy()
    late_ns = (t_ns - t_ns.min()) % (S // 10)
    late_ns = np.where(late_ns > S // 20, late_ns - S // 10, late_ns)
    assert len(t_ns) >= 30
    assert abs(np.median(late_ns[-10:]) - np.median(late_ns[:10])) < 10e6


def test_samples_can_be_read_while_it_runs(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    assert wait_until(lambda: samples(tmp_path).num_rows >= 5)
    sampler.stop()
    assert samples(tmp_path).schema == SCHEMA


def test_the_latest_watts_come_without_waiting(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    assert wait_until(lambda: sampler.latest_power_w() is not None)
    begun = time.monotonic()
    power_w = sampler.latest_power_w()
    assert time.monotonic() - begun < 0.1
    sampler.stop()
    assert 100 <= power_w <= 300


def test_its_account_says_source_mark_devices_notes_and_period(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    account = sampler.describe()
    sampler.stop()
    assert (account["source"], account["mark"], account["period_ms"]) == ("estimate", "modelled", 100)
    assert account["devices"][0]["layer"] == "cpu"
    assert [note["code"] for note in account["notes"]] == ["cpu_modelled", "sampled_host"]
    assert (account["idle_w"], account["idle_mark"]) == (None, None)


def test_once_stopped_it_knows_what_share_of_a_cpu_it_took(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    sampler.stop()
    sampler.stop()
    assert 0 < sampler.describe()["sampler_cpu_share"] < 1
    assert not alive(pid_of(sampler))


def test_a_sampler_that_is_killed_leaves_the_run_going_with_a_reason(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    time.sleep(1.5)
    start_ns = time.monotonic_ns()
    os.kill(pid_of(sampler), signal.SIGKILL)
    assert wait_until(lambda: lost(sampler))
    sampler.stop()
    ledger = window_ledger(samples(tmp_path), start_ns, start_ns + 5 * S, description=sampler.describe())
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "sampler_lost")
    assert samples(tmp_path).num_rows > 0


def test_a_full_disk_ends_the_sampler_and_its_words_are_kept(tmp_path):
    (tmp_path / "power.arrow").symlink_to("/dev/full")
    sampler = Sampler.start(ESTIMATE, tmp_path)
    assert wait_until(lambda: lost(sampler))
    account = sampler.describe()
    sampler.stop()
    assert "No space left on device" in account["notes"][-1]["text"]
    assert sampler.latest_power_w() is None


def test_impossible_watts_are_told_in_the_account(tmp_path):
    sampler = Sampler.start(Power(source="estimate", cpu_idle_w=50, cpu_max_w=10), tmp_path)
    account = sampler.describe()
    sampler.stop()
    assert account["devices"] == []
    assert "cpu_idle_w" in account["notes"][-1]["text"]


def test_it_dies_with_a_parent_that_is_killed(tmp_path):
    script = (
        "import sys, time; from pathlib import Path; from runners.power.sampler import Sampler;"
        "from runners.spec import Power;"
        "print(Sampler.start(Power(source='estimate'), Path(sys.argv[1]))._process.pid, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.kill()
    assert wait_until(lambda: not alive(pid))


def test_ctrl_c_is_left_to_the_parent_to_judge(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    os.kill(pid_of(sampler), signal.SIGINT)
    time.sleep(0.3)
    assert alive(pid_of(sampler))
    os.kill(pid_of(sampler), signal.SIGTERM)
    assert wait_until(lambda: not alive(pid_of(sampler)), 3)
    sampler.stop()


def test_without_a_source_nothing_runs_and_the_files_are_there(tmp_path):
    sampler = Sampler.start(Power(source="none"), tmp_path)
    sampler.stop()
    assert samples(tmp_path).num_rows == 0
    assert json.loads((tmp_path / "power.json").read_text()) == sampler.describe()
    assert (sampler.describe()["source"], sampler.describe()["mark"]) == ("none", None)
    assert sampler.latest_power_w() is None
    ledger = window_ledger(samples(tmp_path), 0, 40 * S, description=sampler.describe())
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "no_power")


def test_a_source_that_is_not_known_is_refused_with_the_choices(tmp_path):
    with pytest.raises(SourceError, match="choose one of auto, nvml, amd, xpu, rapl"):
        Sampler.start(Power(source="geiger"), tmp_path)


def test_instruments_elsewhere_and_logs_of_the_time_are_in_the_file(tmp_path):
    smi_log(tmp_path / "smi.csv", 120, end_s=time.time() + 60)
    with serving(shelly) as server:
        meter = JsonMeter(server.url, pointer="/apower", update_s=0.1)
        power = Power("none", meters=(meter, SmiLog(str(tmp_path / "smi.csv"), "UTC")))
        sampler = Sampler.start(power, tmp_path)
        time.sleep(0.8)
        start_ns = time.monotonic_ns()
        time.sleep(2.2)
        end_ns = time.monotonic_ns()
        sampler.stop()
    account = sampler.describe()
    ledger = window_ledger(samples(tmp_path), start_ns, end_ns, description=account)
    drawn_j = WATTS * (end_ns - start_ns) / S
    assert (account["source"], account["notes"]) == ("meter+csv", [])
    assert ledger["narrow_j"] == pytest.approx(drawn_j, rel=0.001)
    assert ledger["it_j"] == pytest.approx(drawn_j, rel=0.001)
    assert [(layer["layer"], layer["within"]) for layer in ledger["layers"]] == [("accelerator", "host"), ("host", "")]


def test_a_slow_page_holds_up_no_other_instrument(tmp_path):
    def slow(asked):
        time.sleep(0.7)
        return shelly(asked)

    with serving(slow) as server:
        power = Power(
            "estimate", cpu_idle_w=100, cpu_max_w=300, meters=(JsonMeter(server.url, pointer="/apower", update_s=0.2),)
        )
        sampler = Sampler.start(power, tmp_path)
        time.sleep(3)
        sampler.stop()
    rows = [row for row in samples(tmp_path).to_pylist() if row["device"] == "cpu"]
    assert np.diff([row["t_ns"] for row in rows]).max() < 0.5 * S


def test_an_archive_without_data_is_a_note_and_not_the_end(tmp_path):
    sampler = Sampler.start(Power("estimate", meters=(SmiLog(str(tmp_path / "none.csv"), "UTC"),)), tmp_path)
    time.sleep(0.5)
    sampler.stop()
    assert samples(tmp_path).num_rows > 0
    assert "csv_no_data" in [note["code"] for note in sampler.describe()["notes"]]


def test_the_latest_watts_of_a_whole_machine_stand_for_its_parts(tmp_path):
    with serving(shelly) as server:
        power = Power(
            "estimate", cpu_idle_w=100, cpu_max_w=100, meters=(JsonMeter(server.url, pointer="/apower", update_s=0.2),)
        )
        sampler = Sampler.start(power, tmp_path)
        assert wait_until(lambda: sampler.latest_power_w() is not None)
        assert sampler.latest_power_w() == WATTS
        sampler.stop()


def test_the_pace_can_be_slowed_and_restored(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    time.sleep(1.5)
    sampler.pace(1.0)
    slow_from = time.monotonic_ns() + S // 10
    time.sleep(3)
    slow_to = time.monotonic_ns()
    sampler.pace(None)
    time.sleep(1.5)
    sampler.stop()
    t_ns = samples(tmp_path)["t_ns"].to_numpy()
    slow = t_ns[(t_ns > slow_from) & (t_ns < slow_to)]
    assert 2 <= len(slow) <= 3
    assert np.median(np.diff(t_ns[t_ns > slow_to])) < 0.2 * S


def test_a_slow_sampler_stops_as_fast_as_another(tmp_path):
    sampler = Sampler.start(ESTIMATE, tmp_path)
    sampler.pace(30.0)
    time.sleep(0.5)
    begun = time.monotonic()
    sampler.stop()
    assert time.monotonic() - begun < 3
    assert sampler.describe()["sampler_cpu_share"] > 0
