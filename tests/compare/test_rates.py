import numpy as np
import pytest

from observatory.compare.intervals import number_difference
from observatory.compare.rates import batch_interval, share_interval, with_intervals
from observatory.compare.samples import stage_rows
from observatory.compare.stages import Number
from runners.load.plan import fixed_stages
from runners.load.summary import summarise_stage
from tests.simulation import Plan, request_rows


def _measured(seed: int, tpot_ms: float = 9.0) -> dict[tuple[str, str], Number]:
    plan = Plan(levels=(4,), requests=150, output_tokens=16, tpot_ms=tpot_ms, seed=seed, energy="")
    table, _ = request_rows(plan)
    rows = stage_rows(table, 0)
    stage = summarise_stage(table, fixed_stages(plan.spec())[0], plan.spec())
    numbers = {(key, "mean"): Number(found["mean"], n=found["n"]) for key, found in stage["metrics"].items()}
    return with_intervals(numbers, rows, stage["window"], {})


def test_the_interval_of_a_steady_stream_holds_its_rate_and_is_narrow() -> None:
    stamps = np.arange(0, 60 * 10**9, 10**8)
    low, high = batch_interval(stamps, np.full(stamps.size, 3.0), 0, 60 * 10**9) or (0, 0)
    assert (low, high) == (pytest.approx(30), pytest.approx(30))


def test_the_interval_of_a_random_stream_holds_its_rate_nineteen_times_in_twenty() -> None:
    held = 0
    for seed in range(300):
        stamps = np.cumsum(np.random.default_rng(seed).exponential(1e8, 900)).astype(np.int64)
        low, high = batch_interval(stamps, np.ones(900), 0, 60 * 10**9) or (0, 0)
        held += low <= 10 <= high
    assert held >= 300 * 0.91


def test_two_equal_servers_seldom_differ_in_throughput() -> None:
    alarms = 0
    for seed in range(60):
        first, second = _measured(seed), _measured(1000 + seed)
        key = ("output_tokens_per_s", "mean")
        low, high = number_difference(first[key], second[key]) or (0, 0)
        alarms += low > 0 or high < 0
    assert alarms <= 7


def test_a_slower_server_is_found_and_costs_more() -> None:
    first, second = _measured(1), _measured(2, tpot_ms=12.0)
    speed = number_difference(first["output_tokens_per_s", "mean"], second["output_tokens_per_s", "mean"])
    cost = number_difference(first["usd_per_mtok_output", "mean"], second["usd_per_mtok_output", "mean"])
    assert speed is not None
    assert cost is not None
    assert speed[1] < 0 < cost[0]


def test_a_share_of_all_is_not_certain() -> None:
    low, high = share_interval(100.0, 20)
    assert (low, high) == (pytest.approx(83.9, abs=0.1), pytest.approx(100))
    assert share_interval(50.0, 400) == (pytest.approx(45.1, abs=0.1), pytest.approx(54.9, abs=0.1))


def test_a_window_of_no_length_has_no_interval() -> None:
    assert batch_interval(np.array([1]), np.ones(1), 5, 5) is None


def test_bounds_that_the_instrument_gave_are_kept() -> None:
    given = {("success_share", "mean"): Number(90, 80, 95, 100)}
    assert with_intervals(given, None, None, {}) == given
