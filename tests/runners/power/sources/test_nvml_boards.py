"""What NVML tells of boards beyond counter and power: periods, scopes, sharing, refusals, processes, forks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def codes(found):
    return [note["code"] for note in found["notes"]]


def test_the_update_period_of_each_board_is_probed_and_sets_the_pace(play):
    _, account = play("gpus 3\nupdate_ms 1 20\nupdate_ms 2 200\n", ticks=2)
    assert [device["update_ms"] for device in account["devices"]] == [100, 20, 200]
    assert account["period_ms"] == pytest.approx(20 / 2.1)
    assert codes(account).count("update_period_differs") == 2
    assert account["devices"][2]["facts"]["update_ms"]["energy_mj"] == pytest.approx(200, abs=2)


def test_constant_power_hides_its_period_and_the_counter_tells_it(play):
    _, account = play("gpus 1\nconstant 0 250000\n", ticks=2)
    assert set(account["devices"][0]["facts"]["update_ms"]) == {"energy_mj"}
    _, account = play("gpus 1\npoints 0 0:100000 50:700000\nrepeat 0 50\n", ticks=2)
    told = account["devices"][0]["facts"]["update_ms"]
    assert set(told) == {"energy_mj", "power_mw", "power_instant_mw"}
    assert told["power_instant_mw"] == pytest.approx(100, abs=2)


def test_a_stuck_counter_does_not_hang_the_probe_and_the_published_period_counts(play):
    _, account = play("gpus 1\nstale 0 0\n", ticks=2)
    assert account["devices"][0]["update_ms"] == 100
    assert account["devices"][0]["facts"]["update_ms"] == {}


def test_facts_of_a_board_are_told(gpus, read_sources):
    gpus("gpus 1\nscope 0 1 900000\nlimit 0 650000\n")
    assert read_sources()["devices"][0]["facts"] | {"update_ms": None} == {
        "index": 0,
        "generation": "Hopper",
        "driver": "575.51",
        "mig": False,
        "virtualization": "none",
        "power_limit_w": 650.0,
        "default_limit_w": 700.0,
        "power_scopes": ["gpu", "module"],
        "power_smoothing": None,
        "processes": 0,
        "update_ms": None,
    }


@pytest.mark.parametrize(
    ("script", "of_a_module"),
    [
        ("scope 0 1 650000\n", True),
        ("scope 0 1 100000\n", False),
        ("name 0 NVIDIA GB200\n", True),
        ("scope 0 2 30000\n", False),
    ],
)
def test_where_the_module_draws_more_than_the_gpu_its_counter_is_not_taken_for_the_gpu(
    gpus, read_sources, script, of_a_module
):
    gpus("gpus 1\nconstant 0 100000\n" + script)
    found = read_sources()
    assert found["devices"][0]["counter"] is not of_a_module
    assert found["rows"][0]["power_mw"] == pytest.approx(100_000, abs=2)
    assert ("grace_module" in codes(found)) is of_a_module


def test_power_smoothing_is_a_fact_and_a_note_where_it_is_on(gpus, read_sources):
    gpus("gpus 2\nsmoothing 1 60\n")
    found = read_sources()
    told = [device["facts"]["power_smoothing"] for device in found["devices"]]
    assert told == [None, {"enabled": 1, "profile": 0, "floor_pct": 60}]
    assert codes(found).count("power_smoothing") == 1
    assert "floor of 60 %" in next(note["text"] for note in found["notes"] if note["code"] == "power_smoothing")


def test_unequal_sample_times_of_boards_do_not_mix(gpus, read_sources):
    gpus("gpus 2\nupdate_ms 0 20\nconstant 0 300000\nconstant 1 100000\nphase_ms 1 40\n")
    found = read_sources(times=4)
    for device, power_mw in zip(found["devices"], (300_000, 100_000), strict=True):
        rows = [row for row in found["rows"] if row["device"] == device["id"]]
        assert [row["power_mw"] for row in rows] == [pytest.approx(power_mw, abs=2)] * 4


def test_a_board_in_mig_mode_is_marked_shared_though_no_instance_was_named(gpus, read_sources):
    gpus("gpus 1\nmig 0 MIG-1f2a\n")
    found = read_sources()
    assert found["devices"][0]["shared"]
    assert found["devices"][0]["facts"]["mig"] is True
    assert "mig" in codes(found)


@pytest.mark.parametrize(("mode", "shared"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_virtual_gpu_is_recognised(gpus, read_sources, mode, shared):
    gpus(f"gpus 1\nvirtual 0 {mode}\n")
    found = read_sources()
    assert found["devices"][0]["shared"] is shared
    assert ("vgpu" in codes(found)) is shared


def test_what_this_user_may_not_read_is_named_and_the_rest_is_read(gpus, read_sources):
    gpus("gpus 1\ndeny 0 processes\ndeny 0 throttle\ndeny 0 mean\n")
    found = read_sources()
    text = next(note["text"] for note in found["notes"] if note["code"] == "nvml_denied")
    for name in ("processes", "throttle_reasons", "power_mw"):
        assert name in text
    assert found["rows"][0]["energy_mj"] > 0
    assert found["devices"][0]["power_column"] == "power_instant_mw"


def test_a_whole_driver_that_is_refused_gives_no_device_and_says_so(gpus, read_sources):
    gpus("gpus 1\n" + "".join(f"deny 0 {what}\n" for what in ("fields", "energy_call", "power_call")))
    found = read_sources()
    assert found["devices"] == []
    assert {"nvml_denied", "no_power_reading"} <= set(codes(found))


def test_clocks_throttling_and_limit_are_read_once_a_second(gpus, read_sources):
    gpus("gpus 1\nthrottle 0 0 1e12 36\nlimit 0 500000\n")
    row = read_sources()["rows"][0]
    assert (row["clock_mhz"], row["memory_clock_mhz"], row["power_limit_mw"]) == (1410, 3201, 500_000)
    assert row["throttle_reasons"] == 36
    assert row["power_throttled_ms"] == pytest.approx(row["thermal_throttled_ms"], rel=1e-3)


def test_processes_that_come_later_are_counted_and_those_there_before_are_the_servers(play):
    samples, account = play("gpus 1\nprocess 0 11\nprocess 0 12\nprocess 0 99 14 16\n", ticks=200)
    told = [count for count in samples["other_processes"].to_pylist() if count is not None]
    assert (min(told), max(told), told[0], told[-1]) == (0, 1, 0, 0)
    note = next(note["text"] for note in account["notes"] if note["code"] == "several_processes")
    assert note.startswith("2 compute processes on ")
    assert "from the start (python3) are all taken to be the server's" in note
    assert "--gpu-shared" in note
    assert account["devices"][0]["facts"]["processes"] == 2


def test_one_call_a_tick_and_board_reads_every_field(gpus):
    gpus("gpus 3\n")
    script = """
import ctypes
from runners.power.sources.nvml import NvmlSource
library = ctypes.CDLL("libnvidia-ml.so.1")
library.fake_nvml_field_calls.restype = ctypes.c_longlong
source = NvmlSource({})
source.read()
for _ in range(5):
    before = library.fake_nvml_field_calls()
    rows = source.read()
    assert library.fake_nvml_field_calls() - before == 3, library.fake_nvml_field_calls() - before
    assert all({"energy_mj", "power_mw", "power_instant_mw", "sensor_t_us"} <= set(row) for row in rows)
source.close()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=os.environ, timeout=60, check=False)
    assert done.returncode == 0


def test_a_forked_child_reads_with_an_nvml_of_its_own(gpus):
    gpus("gpus 2\nconstant 1 300000\n")
    script = """
import os, sys
import pynvml
from runners.power.sources.nvml import NvmlSource
source = NvmlSource()
if os.fork() == 0:
    rows = source.read()
    os._exit(0 if [round(row["power_mw"], -3) for row in rows] == [100000, 300000] else 1)
assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
assert len(source.read()) == 2
source.close()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=os.environ, timeout=60, check=False)
    assert done.returncode == 0
