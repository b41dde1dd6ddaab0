"""Energy divided among what shared it: the parts sum to the whole, whatever it is."""

from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runners.power.attribution import Work, attribute, attributed_median, fit, not_negative, share

IDLE_W, PREFILL_J, DECODE_J, READ_J = 90.0, 0.02, 0.35, 40.0


def work(seconds, prefill, decode, kv_reads=None):
    reads = np.zeros(len(seconds)) if kv_reads is None else kv_reads
    return Work(*(np.asarray(amount, dtype=np.float64) for amount in (seconds, prefill, decode, reads)))


def mixed(count=40, seed=1, kv=True):
    """Slices of 2.5 s whose prompts and answers vary independently, and their true energy."""
    random = np.random.default_rng(seed)
    prefill, decode = random.uniform(0, 20_000, count), random.uniform(0, 2_000, count)
    reads = random.uniform(0, 5, count) if kv else np.zeros(count)
    done = work(np.full(count, 2.5), prefill, decode, reads)
    return done, IDLE_W * done.seconds + PREFILL_J * prefill + DECODE_J * decode + READ_J * reads


def test_known_coefficients_are_found_again():
    done, energy = mixed()
    found = fit(energy, done, IDLE_W)
    assert [term.names for term in found.terms] == [("prefill",), ("decode",), ("kv_reads",)]
    assert [term.joules for term in found.terms] == pytest.approx([PREFILL_J, DECODE_J, READ_J], rel=1e-6)
    assert found.r_squared == pytest.approx(1)


def test_idle_power_is_fitted_too_where_it_was_not_measured():
    done, energy = mixed()
    found = fit(energy, done)
    assert found.idle_w == pytest.approx(IDLE_W, rel=1e-6)
    assert not found.idle_measured


def test_the_interval_holds_the_truth_under_noise():
    done, energy = mixed(kv=False)
    noisy = energy * np.random.default_rng(3).normal(1, 0.01, len(energy))
    found = fit(noisy, done, IDLE_W)
    prefill, decode = found.terms
    assert prefill.low < PREFILL_J < prefill.high
    assert decode.low < DECODE_J < decode.high
    assert decode.low > 0


def test_a_constant_ratio_of_prompt_and_answer_is_not_told_apart_and_said_so():
    decode = np.linspace(100, 2_000, 24)
    done = work(np.full(24, 2.5), 4 * decode, decode)
    found = fit(IDLE_W * done.seconds + PREFILL_J * done.prefill + DECODE_J * decode, done, IDLE_W)
    (term,) = found.terms
    assert term.names == ("prefill", "decode")
    assert term.joules == pytest.approx((4 * PREFILL_J + DECODE_J) / 5)
    assert "cannot tell prefill and decode tokens apart" in found.note


def test_too_few_slices_give_no_fit():
    done, energy = mixed(count=3)
    assert fit(energy, done, IDLE_W) is None


def test_no_coefficient_is_below_zero_even_where_that_would_fit_better():
    design = np.array([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]])
    assert (not_negative(design, np.array([3.0, 2.0, 1.0])) >= 0).all()
    assert not_negative(design, np.array([-1.0, -2.0, -3.0])).tolist() == [0, 0]


def test_a_longer_answer_takes_more_and_a_cached_prompt_less():
    done, energy = mixed(kv=False)
    found = fit(energy, done, IDLE_W)
    requests = work([1, 1, 1], [1000, 1000, 0], [100, 200, 100])
    first, longer, cached = attribute(found, 300.0, requests)
    assert longer > first > cached


def test_median_and_mean_differ_where_few_requests_are_long():
    done, energy = mixed(kv=False)
    found = fit(energy, done, IDLE_W)
    requests = work(np.full(10, 0.5), np.full(10, 100), [50] * 9 + [5000])
    median = attributed_median(found, 1000.0, requests, np.ones(10, dtype=np.bool_))
    assert median["value"] < 1000.0 / 10
    assert median["low"] <= median["value"] <= median["high"]


def test_only_whole_requests_enter_the_median():
    done, energy = mixed(kv=False)
    found = fit(energy, done, IDLE_W)
    requests = work([0.5, 0.5, 0.5], [100, 100, 100], [50, 50, 1])
    whole = np.array([True, True, False])
    assert attributed_median(found, 90.0, requests, whole)["value"] == pytest.approx(
        float(np.median(attribute(found, 90.0, requests)[:2]))
    )


FOUND = fit(*reversed(mixed()), IDLE_W)
amounts = st.floats(0, 1e7, allow_nan=False)
requests_of = st.lists(st.tuples(st.floats(0, 600), amounts, amounts, st.floats(0, 1e3)), min_size=1, max_size=40)


@settings(deadline=None, max_examples=200)
@given(requests_of, st.floats(0, 1e9))
def test_the_requests_took_exactly_what_was_measured(rows, energy_j):
    """Conservation of energy, for any mix of requests."""
    parts = attribute(FOUND, energy_j, work(*np.array(rows).T))
    assert fsum(parts) == pytest.approx(energy_j, rel=1e-15, abs=1e-12)
    assert (parts >= -1e-9 * energy_j).all()


@settings(deadline=None)
@given(st.floats(0, 1e6), st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_shares_sum_to_the_whole(total, weights):
    parts = share(total, np.array(weights))
    assert fsum(parts) == pytest.approx(total, rel=1e-15, abs=1e-12)


def test_processes_on_one_card_share_it_by_their_time():
    assert share(400.0, np.array([0.3, 0.7])).tolist() == pytest.approx([120.0, 280.0])


def test_seven_mig_instances_share_one_board_and_not_seven():
    activity, slices = np.array([0.9, 0.1, 0.5, 0.0, 0.3, 0.2, 0.6]), np.ones(7)
    parts = share(300.0, activity * slices)
    assert fsum(parts) == 300.0
    assert parts[3] == 0


def test_idle_is_shared_equally_when_nothing_was_done():
    assert share(60.0, np.zeros(3)).tolist() == [20.0, 20.0, 20.0]


def test_negative_work_is_refused():
    with pytest.raises(ValueError, match="below 0"):
        share(1.0, np.array([1.0, -1.0]))
