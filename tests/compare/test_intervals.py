import numpy as np
import pytest

from observatory.compare.intervals import (
    number_difference,
    percentile_difference,
    percentile_interval,
    resampled_percentiles,
)
from observatory.compare.stages import Number


def _latencies(seed: int, n: int = 200, scale: float = 100.0) -> np.ndarray:
    return scale * np.random.default_rng(seed).lognormal(0, 0.3, n)


def test_the_short_way_to_bootstrap_a_percentile_agrees_with_drawing_every_value() -> None:
    sample = _latencies(1, 150)
    generator = np.random.default_rng(2)
    drawn = np.percentile(generator.choice(sample, (4000, sample.size)), 90, axis=1)
    short = resampled_percentiles(sample, 90, np.random.default_rng(3))
    assert np.mean(short) == pytest.approx(np.mean(drawn), rel=0.01)
    assert np.percentile(short, [2.5, 97.5]) == pytest.approx(np.percentile(drawn, [2.5, 97.5]), rel=0.02)


def test_a_known_shift_is_found() -> None:
    found = 0
    for seed in range(100):
        low, high = percentile_difference(_latencies(seed), _latencies(1000 + seed) * 1.2, 50)
        found += low > 0
        assert high > low
    assert found >= 95


@pytest.mark.parametrize(("percent", "n"), [(50, 100), (90, 300), (99, 800)])
def test_pure_noise_is_called_a_difference_in_about_one_seed_of_twenty(percent: int, n: int) -> None:
    false_alarms = 0
    for seed in range(300):
        low, high = percentile_difference(_latencies(seed, n), _latencies(5000 + seed, n), percent)
        false_alarms += low > 0 or high < 0
    assert false_alarms <= 300 * 0.09


def test_the_interval_of_a_percentile_holds_the_true_value_nineteen_times_in_twenty() -> None:
    held = 0
    for seed in range(300):
        low, high = percentile_interval(_latencies(seed, 200), 50)
        held += low <= 100 <= high
    assert held >= 300 * 0.91


def test_the_same_samples_give_the_same_interval() -> None:
    assert percentile_difference(_latencies(1), _latencies(2), 50) == percentile_difference(
        _latencies(1), _latencies(2), 50
    )


def test_a_single_value_is_its_own_interval() -> None:
    assert percentile_interval(np.array([7.0]), 99) == (7.0, 7.0)


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="empty sample"):
        percentile_interval(np.array([]), 50)


def test_bounds_of_two_rates_add_up_as_squares() -> None:
    low, high = number_difference(Number(100, 97, 103), Number(120, 116, 124)) or (0, 0)
    assert (low, high) == (pytest.approx(15), pytest.approx(25))


def test_a_rate_without_an_interval_gives_none() -> None:
    assert number_difference(Number(100), Number(120, 116, 124)) is None
