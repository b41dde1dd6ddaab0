"""Means and paired effects against tables and against simulated truth."""

import numpy as np
import pytest

from observatory.studies.statistics import mean, paired_difference, paired_ratio, t_quantile


@pytest.mark.parametrize(
    ("probability", "freedom", "expected"),
    [
        (0.975, 1, 12.706),
        (0.975, 2, 4.303),
        (0.975, 3, 3.182),
        (0.975, 9, 2.262),
        (0.975, 29, 2.045),
        (0.99, 3, 4.541),
        (0.995, 4, 4.604),
        (0.95, 10, 1.812),
    ],
)
def test_the_quantiles_of_students_t_are_those_of_the_table(probability: float, freedom: int, expected: float) -> None:
    assert t_quantile(probability, freedom) == pytest.approx(expected, abs=6e-4)


def test_a_mean_has_an_interval_from_two_repeats_on() -> None:
    assert mean([]) is None
    one = mean([5.0])
    assert one is not None
    assert (one.value, one.low, one.high, one.n) == (5.0, None, None, 1)
    two = mean([4.0, 6.0])
    assert two is not None
    assert (two.value, two.low, two.high) == (5.0, 0.0, pytest.approx(5 + 12.706, abs=1e-3))


def test_a_ratio_is_paired_so_that_what_drifts_from_repeat_to_repeat_cancels() -> None:
    base = [10.0, 20.0, 40.0]
    found = paired_ratio(base, [value * 1.5 for value in base])
    assert found is not None
    assert (found.value, found.low, found.high) == (pytest.approx(1.5), pytest.approx(1.5), pytest.approx(1.5))
    difference = paired_difference([0.0, 10.0], [5.0, 15.0])
    assert difference is not None
    assert (difference.value, difference.low, difference.high) == (5, 5, 5)


def test_more_comparisons_make_wider_intervals() -> None:
    base, other = [10.0, 11.0, 12.0, 10.5], [12.0, 12.4, 13.9, 12.1]
    alone, of_four = paired_ratio(base, other), paired_ratio(base, other, comparisons=4)
    assert alone is not None
    assert of_four is not None
    assert alone.low is not None
    assert of_four.low is not None
    assert of_four.low < alone.low < alone.value == of_four.value


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_interval_holds_the_true_ratio_in_95_of_100_studies(repeats: int) -> None:
    generator = np.random.default_rng(7)
    held = 0
    for _ in range(1000):
        drift = np.exp(generator.normal(0, 0.3, repeats))
        base = 100 * drift * np.exp(generator.normal(0, 0.05, repeats))
        other = 80 * drift * np.exp(generator.normal(0, 0.05, repeats))
        found = paired_ratio(list(base), list(other))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.8 <= found.high
    assert 930 <= held <= 970
