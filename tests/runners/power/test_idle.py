"""Idle power before and after, the observer effect and the cool start: real sampler, real binding, scripted GPUs."""

import time

import pytest

from runners.load.records import read_spool
from runners.power import idle
from runners.power.idle import Cooling, Idle, idle_seconds
from runners.power.sampler import Sampler
from runners.power.samples import SCHEMA
from runners.spec import Load, Power, RunSpec, SpecError, Target


@pytest.fixture
def account(gpus, tmp_path):
    """Plays a script from now on, goes through idle before, waits until ``after_s`` of the script, and goes through
    idle after; gives the account.
    """

    def go(script, power, after_s=0.0):
        phases = []
        t0_ns = time.monotonic_ns()
        gpus(f"gpus 1\nt0_ns {t0_ns}\n{script}")
        sampler = Sampler.start(power, tmp_path)
        phase = Idle(power, phases.append)
        time.sleep(0.5)  # a run checks its endpoint meanwhile
        phase.before(sampler)
        time.sleep(max(0.0, after_s - (time.monotonic_ns() - t0_ns) / 1e9))
        phase.after()
        sampler.stop()
        found = phase.account(read_spool(tmp_path / "power.arrow", SCHEMA), sampler.describe())
        return found | {"phases": set(phases)}

    return go


def codes(found):
    return [note["code"] for note in found["notes"]]


def test_idle_power_is_read_before_and_after_and_a_drift_is_flagged(account):
    found = account("step 0 80000 120000 12\n", Power("nvml", idle_s=2.2), after_s=12.5)  # a busy machine begins late
    assert found["idle_w"] == pytest.approx(80, rel=0.02)
    assert found["idle_after_w"] == pytest.approx(120, rel=0.1)
    assert found["idle_bounds_w"][1] >= found["idle_after_w"]
    assert (found["idle_mark"], found["observer_w"], found["phases"]) == ("measured", None, {"idle"})
    assert "idle_drift" in codes(found)
    assert found["start_temperature_c"] == 60


def test_steady_idle_power_is_no_drift(account):
    found = account("constant 0 80000\n", Power("nvml", idle_s=2.2))
    assert found["idle_after_w"] == pytest.approx(found["idle_w"], rel=0.02)
    low_w, high_w = found["idle_bounds_w"]
    assert 0.8 * found["idle_w"] < low_w < found["idle_w"] < high_w < 1.2 * found["idle_w"]
    assert "idle_drift" not in codes(found)


def test_what_being_read_costs_is_measured_and_flagged(account, monkeypatch):
    monkeypatch.setattr(idle, "OBSERVER_S", 6.0)
    found = account("constant 0 50000\nawake 0 50000\n", Power("nvml", idle_s=3, observer=True))
    assert found["idle_w"] == pytest.approx(100, rel=0.03)
    assert found["observer_w"] == pytest.approx(50, rel=0.15)
    low_w, high_w = found["observer_bounds_w"]
    assert 20 < low_w < found["observer_w"] < high_w < 80
    assert "observer_effect" in codes(found)


def test_an_instrument_that_costs_nothing_to_read_has_no_note(account, monkeypatch):
    monkeypatch.setattr(idle, "OBSERVER_S", 6.0)
    found = account("constant 0 50000\n", Power("nvml", idle_s=3, observer=True))
    assert found["observer_w"] == pytest.approx(0, abs=0.9)
    low_w, high_w = found["observer_bounds_w"]
    assert -3 < low_w <= found["observer_w"] <= high_w < 3  # one such interval in twenty leaves 0 out
    assert "observer_effect" not in codes(found)


def test_a_model_of_power_has_no_observer_effect(account):
    found = account("", Power("estimate", idle_s=0.1))
    assert found["observer_w"] is None


def test_the_run_waits_until_the_gpu_is_below_the_bound(account):
    found = account("temperature 0 70 40 12\n", Power("nvml", idle_s=0, start_below_c=50))
    assert 40 < found["start_temperature_c"] <= 50
    assert found["start_waited_s"] > 1
    assert "cool" in found["phases"]
    assert "start_too_warm" not in codes(found)


def test_waiting_has_an_end_and_a_reason(account):
    found = account("temperature 0 70 70 1\n", Power("nvml", idle_s=0, start_below_c=50, start_wait_s=1.5))
    assert "start_too_warm" in codes(found)
    assert "70 °C" in found["notes"][-1]["text"]
    assert 1.5 <= found["start_waited_s"] < 3


def test_without_a_temperature_it_does_not_wait(account):
    found = account("unsupported 0 temperature\n", Power("nvml", idle_s=0, start_below_c=50))
    assert "temperature_unknown" in codes(found)
    assert found["start_waited_s"] < 1
    assert found["start_temperature_c"] is None


def seconds_until(power, temperature_c):
    cooling = Cooling(power)
    return next((s for s in range(1000) if cooling.reached(s, temperature_c(s))), None)


def test_a_card_that_no_longer_cools_may_start():
    steady = Power("nvml", start_steady_c_per_min=1)
    assert seconds_until(steady, lambda s: 40) == 54  # a minute has to be seen, near enough
    started_s = seconds_until(steady, lambda s: round(35 + 30 * 0.99**s))
    assert 150 < started_s < 400
    assert seconds_until(steady, lambda s: 900 - 0.1 * s) is None


def test_either_bound_is_enough():
    both = Power("nvml", start_below_c=45, start_steady_c_per_min=1)
    assert seconds_until(both, lambda s: 60 - s / 10) == 151


def test_what_idle_adds_to_a_run():
    assert idle_seconds(Power("nvml", idle_s=20)) == 42
    assert idle_seconds(Power("nvml", idle_s=20, observer=True)) == 82
    assert idle_seconds(Power("nvml", idle_s=0)) == idle_seconds(Power("none")) == 0


@pytest.mark.parametrize(
    ("power", "field"),
    [
        (Power("none", observer=True), "power.source"),
        (Power("none", start_below_c=40), "power.source"),
        (Power("nvml", start_wait_s=0), "power.start_wait_s"),
        (Power("nvml", start_steady_c_per_min=-1), "power.start_steady_c_per_min"),
        (Power("nvml", idle_s=-1), "power.idle_s"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(power, field):
    with pytest.raises(SpecError, match=field):
        RunSpec(target=Target("http://localhost:1"), load=Load(requests=1), power=power)
