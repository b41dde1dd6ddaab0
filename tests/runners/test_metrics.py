"""One table of metrics, and numbers as people see them."""

import pytest

from runners.metrics import BESIDE, BY_KEY, METRICS, PERCENTILE_MIN_N, display, significant


def test_every_metric_has_words_and_a_unit():
    assert len(BY_KEY) == len(METRICS) + len(BESIDE)
    for metric in METRICS:
        assert metric.help.endswith(".")
        assert metric.label
        assert metric.unit


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0123, "ms", ("12.3", "µs")),
        (1.0, "ms", ("1.00", "ms")),
        (999.4, "ms", ("999", "ms")),
        (12345.0, "ms", ("12.3", "s")),
        (0, "ms", ("0", "ms")),
        (123456.0, "tok/s", ("123\u2009000", "tok/s")),
        (0.00173, "Wh", ("0.00173", "Wh")),
        (None, "ms", ("–", "")),
        (float("nan"), "W", ("–", "W")),
    ],
)
def test_numbers_have_three_significant_digits_and_times_the_unit_that_fits(value, unit, shown):
    assert display(value, unit) == shown


def test_rounding_up_to_the_next_power_of_ten_keeps_three_digits():
    assert significant(9.999) == "10.0"
    assert significant(0.09999) == "0.100"


def test_a_percentile_needs_the_sample_that_bounds_it_with_99_percent_confidence():
    for name, n in PERCENTILE_MIN_N.items():
        q = float(name[1:]) / 100
        assert q**n <= 0.01 < q ** (n - 1)
