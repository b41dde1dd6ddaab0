"""The state of a device in a window, and what of it makes a figure worthless; through the scripted GPUs."""

import pytest

from runners.power.energy import window_ledger

S = 1_000_000_000


def ledger(play, script, start_s=12, end_s=16, ticks=150):
    samples, account = play("gpus 1\n" + script, ticks)
    return window_ledger(samples, start_s * S, end_s * S, description=account)


def codes(found):
    return [reason["code"] for reason in found["reasons"]]


def test_temperature_clocks_limit_and_utilisation_are_facts_of_the_window(play):
    found = ledger(play, "temperature 0 60 40 20\n")
    state = found["states"][0]
    assert state["device"] == found["instruments"][0]["device"]
    assert 44 <= state["temperature_c"]["min"] < state["temperature_c"]["max"] <= 48
    assert state["clock_mhz"] == {"min": 1980, "mean": 1980, "max": 1980}
    assert state["power_limit_w"]["mean"] == 700
    assert state["held_back_share"] == {"power": 0, "thermal": 0, "hardware": 0}
    assert state["other_processes"] == 0
    assert codes(found) == []


@pytest.mark.parametrize(
    ("bits", "code", "reason"), [(4, "throttled_power", "power"), (32, "throttled_thermal", "thermal"),
                                 (64, "throttled_thermal", "thermal"), (8, "throttled_hardware", "hardware")]
)  # fmt: skip
def test_clocks_that_were_held_back_are_flagged_with_their_share_and_the_figure_stands(play, bits, code, reason):
    found = ledger(play, f"throttle 0 14 100 {bits}\n")
    assert codes(found) == [code]
    assert found["it_j"] == pytest.approx(400, rel=0.01)
    assert found["states"][0]["held_back_share"][reason] == pytest.approx(0.5, abs=0.15)
    assert found["states"][0]["clock_mhz"]["min"] == 1410


def test_an_idle_gpu_is_not_held_back(play):
    assert codes(ledger(play, "throttle 0 0 100 1\n")) == []


def test_throttling_is_told_without_the_running_counters_too(play):
    found = ledger(play, "throttle 0 14 100 4\nunsupported 0 throttled\n")
    assert codes(found) == ["throttled_power"]


def test_what_the_driver_does_not_tell_is_missing(play):
    missing = ("temperature", "clock", "limit", "throttle", "throttled", "processes", "utilisation")
    found = ledger(play, "".join(f"unsupported 0 {name}\n" for name in missing))
    state = found["states"][0]
    assert state["held_back_share"] == {"power": None, "thermal": None, "hardware": None}
    assert {key for key, value in state.items() if value is None} == {
        "temperature_c", "clock_mhz", "memory_clock_mhz", "utilisation_pct", "power_limit_w", "other_processes"
    }  # fmt: skip
    assert found["it_j"] == pytest.approx(400, rel=0.01)


def test_a_power_limit_that_is_changed_inside_the_window_leaves_no_figure(play):
    script = "limit_at 0 14 400000\n"
    assert (ledger(play, script)["it_j"], codes(ledger(play, script))) == (None, ["power_limit_changed"])
    assert ledger(play, script, end_s=14 - 1)["reasons"][0]["code"] == "window_too_short"
    assert ledger(play, script, start_s=15, end_s=17)["it_j"] == pytest.approx(200, rel=0.02)


def test_another_process_on_the_gpu_leaves_no_figure_for_its_windows_alone(play):
    script = "process 0 11\nprocess 0 99 14 15.5\n"
    assert (ledger(play, script)["it_j"], codes(ledger(play, script))) == (None, ["contaminated"])
    assert ledger(play, script, start_s=11, end_s=13)["it_j"] == pytest.approx(200, rel=0.02)
    assert ledger(play, script, start_s=17, end_s=19, ticks=220)["it_j"] == pytest.approx(200, rel=0.02)


def test_a_gpu_that_comes_or_goes_leaves_no_figure_from_there_on(play):
    script = "gpus_at 14 2\n"
    assert (ledger(play, script)["it_j"], codes(ledger(play, script))) == (None, ["device_count_changed"])
    assert codes(ledger(play, script, start_s=16, end_s=19, ticks=220)) == ["device_count_changed"]
    before = ledger(play, script, start_s=11, end_s=13)
    assert before["it_j"] == pytest.approx(200, rel=0.02)
    assert before["states"][0]["listed_gpus"] == {"min": 1, "max": 1}


@pytest.mark.parametrize(
    ("event", "code"),
    [("reset 0 14", "counter_reset"), ("stale 0 11.5", "counter_stale"), ("lost 0 14", "gpu_lost")],
)
def test_each_fault_has_its_code(play, event, code):
    found = ledger(play, event + "\n", ticks=240)
    assert (found["it_j"], codes(found)) == (None, [code])
