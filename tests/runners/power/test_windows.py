import pytest

from runners.metrics import Mark
from runners.power.windows import Duty, duty_cycle, window_energy


def ledger(**changes):
    layers = [
        {"layer": "accelerator", "energy_j": 3000.0, "low_j": 2700.0, "high_j": 3300.0},
        {"layer": "cpu", "energy_j": 600.0, "low_j": 540.0, "high_j": 660.0},
        {"layer": "idle", "energy_j": 900.0, "low_j": None, "high_j": None},
    ]
    found = {"window_s": 100.0, "layers": layers, "narrow_j": 3000.0, "it_j": 3600.0, "full_j": 4320.0}
    return found | {"mark": "measured", "reasons": []} | changes


def test_a_window_tells_the_energy_of_a_query_at_each_boundary_with_its_band():
    found = window_energy("steady", ledger(), 10)
    assert found["wh_per_query"] == pytest.approx(0.1)
    assert (found["low"], found["high"]) == (pytest.approx(0.09), pytest.approx(0.11))
    assert found["full_wh_per_query"] == pytest.approx(0.12)


def test_a_window_without_a_total_or_without_a_query_has_no_figure():
    lost = window_energy("steady", ledger(it_j=None, full_j=None, reasons=[{"code": "sampler_lost", "text": ""}]), 10)
    assert (lost["wh_per_query"], lost["low"], lost["full_wh_per_query"]) == (None, None, None)
    assert lost["reasons"][0]["code"] == "sampler_lost"
    assert window_energy("steady", ledger(), 0)["wh_per_query"] is None


def test_idle_time_between_queries_is_shared_among_them():
    steady = window_energy("steady", ledger(), 10)  # 360 queries an hour
    found = duty_cycle(steady, 36, 9.0, "measured")
    assert isinstance(found, Duty)
    assert found.busy_share == pytest.approx(0.1)
    assert found.wh_per_query == pytest.approx(0.1 + 9.0 * 0.9 / 36)
    assert found.mean_power_w == pytest.approx(36 * 0.1 + 9.0 * 0.9)
    assert found.high == pytest.approx(1.1 * found.wh_per_query)
    assert found.full_wh_per_query == pytest.approx(1.2 * found.wh_per_query)
    assert found.mark is Mark.MEASURED


def test_at_full_traffic_nothing_is_idle_and_more_than_was_served_is_refused():
    steady = window_energy("steady", ledger(), 10)
    full = duty_cycle(steady, 360, 9.0, "measured")
    assert isinstance(full, Duty)
    assert full.idle_wh_per_query == pytest.approx(0)
    assert "more than were served" in str(duty_cycle(steady, 400, 9.0, "measured"))


def test_what_is_unknown_is_said():
    steady = window_energy("steady", ledger(), 10)
    assert "idle power was not read" in str(duty_cycle(steady, 36, None, None))
    unknown = window_energy("steady", ledger(it_j=None), 10)
    assert "steady window is unknown" in str(duty_cycle(unknown, 36, 9.0, "measured"))
    modelled = duty_cycle(steady, 36, 9.0, "modelled")
    assert isinstance(modelled, Duty)
    assert modelled.mark is Mark.MODELLED
