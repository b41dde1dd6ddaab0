"""The observer effect from prepared samples: seldom, often, seldom again, ten seconds each."""

import pytest

from runners.power.observer import OBSERVED, observer_effect

S = 1_000_000_000
WINDOWS = ((10 * S, 20 * S), (20 * S, 30 * S), (30 * S, 40 * S))
STEP_NS = {0: 2 * S, 1: S // 20, 2: 2 * S}


@pytest.fixture
def seen(device, table):
    """Readings of a card of so many watts at each second, which draws ``cost_w`` more while it is read often."""

    def read(power_w, cost_w=0.0, windows=WINDOWS, **changes):
        rows, energy_mj, last_ns = [], 0.0, WINDOWS[0][0]
        for number, (start_ns, end_ns) in enumerate(WINDOWS):
            extra_w = cost_w if number == 1 else 0.0
            for t_ns in range(start_ns, end_ns + 1, STEP_NS[number]):
                watts = power_w(((t_ns + last_ns) / 2 - 10 * S) / S) + extra_w
                energy_mj += watts * (t_ns - last_ns) / 1e6
                last_ns = t_ns
                rows.append({"t_ns": t_ns, "device": "gpu", "energy_mj": energy_mj, "power_mw": watts * 1e3})
        return observer_effect(table(rows), dict(zip(OBSERVED, windows, strict=True)), [device(**changes).to_json()])

    return read


@pytest.mark.parametrize("counter", [True, False])
def test_a_steady_drift_cancels(seen, counter):
    found = seen(lambda s: 50 + 0.3 * s, counter=counter)
    assert found.watts == pytest.approx(0, abs=0.2)
    assert found.bounds_w[0] < 0 < found.bounds_w[1]


@pytest.mark.parametrize("counter", [True, False])
def test_under_a_drift_the_cost_is_still_found(seen, counter):
    found = seen(lambda s: 50 + 0.3 * s, cost_w=5, counter=counter)
    assert found.watts == pytest.approx(5, abs=0.3)
    assert 3 < found.bounds_w[0] < found.watts < found.bounds_w[1] < 7


def test_power_that_scatters_widens_the_interval(seen):
    wild = seen(lambda s: 50 + (8 if int(s / 2) % 2 else 0), cost_w=5)
    calm = seen(lambda s: 50, cost_w=5)
    assert calm.bounds_w[1] - calm.bounds_w[0] < 0.1
    assert wild.bounds_w[1] - wild.bounds_w[0] > 3


def test_two_windows_are_not_enough(seen):
    assert seen(lambda s: 50, windows=(WINDOWS[0], WINDOWS[1], None)) is None


def test_a_counter_that_falls_leaves_no_figure(seen):
    assert seen(lambda s: 50 if s < 14 else -50) is None
    wraps = seen(lambda s: 50, wraps=True, wraps_at_mj=1e9)
    assert wraps.watts == pytest.approx(0, abs=0.01)


def test_a_model_has_no_observer(seen):
    assert seen(lambda s: 50, mark="modelled") is None
