"""Schedules are absolute and computed beforehand: nothing drifts."""

import numpy as np
import pytest

from runners.load.arrivals import ClosedLoop, OpenLoop, Span, Times, schedule_ns
from runners.spec import Arrivals


def schedule(arrivals=Arrivals.CONSTANT, rate=10.0, seed=0, cv=1.0, rise_from=None, **times):
    return schedule_ns(arrivals, rate, Times(**times), seed, cv=cv, rise_from=rise_from)


def test_constant_means_equal_gaps():
    assert set(np.diff(schedule(requests=50)).tolist()) == {100_000_000}


def test_poisson_gaps_have_the_mean_and_spread_of_an_exponential():
    gaps_s = np.diff(schedule(Arrivals.POISSON, 200.0, requests=20_000)) / 1e9
    assert gaps_s.mean() == pytest.approx(1 / 200, rel=0.03)
    assert gaps_s.std() == pytest.approx(1 / 200, rel=0.05)


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another():
    first, again, other = (schedule(Arrivals.POISSON, requests=20, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert not (first == other).all()


@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON, Arrivals.GAMMA])
def test_a_number_of_requests_is_counted_after_the_warmup(arrivals):
    offsets = schedule(arrivals, 50.0, warmup_s=2.0, requests=30)
    assert (offsets >= 2e9).sum() == 30


@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON, Arrivals.GAMMA])
def test_a_duration_ends_the_schedule(arrivals):
    offsets = schedule(arrivals, 100.0, warmup_s=1.0, duration_s=5.0)
    assert offsets.max() < 6e9
    assert len(offsets) == pytest.approx(600, rel=0.15)


@pytest.mark.parametrize("cv", [0.25, 2.0])
def test_gamma_gaps_have_the_mean_and_the_spread_that_was_asked_for(cv):
    gaps_s = np.diff(schedule(Arrivals.GAMMA, 100.0, requests=40_000, cv=cv)) / 1e9
    assert gaps_s.mean() == pytest.approx(1 / 100, rel=0.05)
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(cv, rel=0.05)


@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON])
def test_a_ramp_rises_evenly_from_its_start_to_the_level(arrivals):
    offsets_s = schedule(arrivals, 200.0, rise_from=20.0, duration_s=60.0, warmup_s=10.0) / 1e9
    a_second, _ = np.histogram(offsets_s, bins=np.arange(0, 71))
    assert a_second[:10].mean() == pytest.approx(20, rel=0.15)
    assert a_second[10:14].mean() == pytest.approx(26, rel=0.25)
    assert a_second[38:42].mean() == pytest.approx(110, rel=0.15)
    assert a_second[66:].mean() == pytest.approx(194, rel=0.15)
    assert len(offsets_s) == pytest.approx(20 * 10 + 110 * 60, rel=0.05)


def test_a_cooldown_is_sent_after_what_is_measured_and_counted_as_load_only():
    due_ns = schedule(rate=10.0, warmup_s=1.0, requests=30, cooldown_s=2.05)
    assert len(due_ns) == 10 + 30 + 20
    loop = OpenLoop(due_ns, Span(10**9, requests=30), max_in_flight=9)
    assert loop.planned == 30
    load_only = [loop.take(int(due))[1] for due in due_ns]
    assert load_only == [True] * 10 + [False] * 30 + [True] * 20


def test_requests_that_are_due_in_the_same_nanosecond_are_all_counted():
    loop = OpenLoop(np.array([5, 5, 5, 5]), Span(0, requests=4), max_in_flight=9)
    assert [loop.take(5)[1] for _ in range(4)] == [False] * 4


def test_a_closed_loop_counts_only_what_is_sent_after_the_warmup():
    loop = ClosedLoop(2, Span(warm_ns=100, requests=2))
    assert loop.take(50) == (50, True)
    assert loop.take(100) == (100, False)
    assert loop.next_due_ns(110, in_flight=1) == 110
    assert loop.next_due_ns(110, in_flight=2) is None
    loop.take(110)
    assert loop.ended(110)


def test_a_closed_loop_goes_on_through_its_cooldown():
    loop = ClosedLoop(2, Span(warm_ns=0, requests=1, cooldown_ns=50))
    assert loop.take(10) == (10, False)
    assert loop.take(20) == (20, True)
    assert not loop.ended(59)
    assert loop.ended(60)


def test_the_concurrency_of_a_ramp_opens_slot_by_slot_at_known_times():
    loop = ClosedLoop(11, Span(warm_ns=0, end_ns=1000), rise_from=1)
    assert loop.next_due_ns(0, in_flight=0) == 0
    assert loop.next_due_ns(0, in_flight=1) == 100
    assert loop.next_due_ns(550, in_flight=5) == 550
    assert loop.next_due_ns(550, in_flight=6) == 600
    assert loop.next_due_ns(999, in_flight=11) is None


def test_an_open_loop_holds_back_at_the_cap_and_says_so():
    loop = OpenLoop(np.array([0, 10, 20]), Span(0), max_in_flight=1)
    assert loop.next_due_ns(0, in_flight=0) == 0
    loop.take(0)
    assert loop.next_due_ns(5, in_flight=1) is None
    assert not loop.capped
    assert loop.next_due_ns(15, in_flight=1) is None
    assert loop.capped
