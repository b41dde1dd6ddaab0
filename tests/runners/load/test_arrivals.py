"""Schedules are absolute and computed beforehand: nothing drifts."""

import numpy as np
import pytest

from runners.load.arrivals import ClosedLoop, OpenLoop, schedule_ns
from runners.spec import Arrivals


def schedule(arrivals=Arrivals.CONSTANT, rate=10.0, warmup_s=0.0, requests=None, duration_s=None, seed=0):
    return schedule_ns(arrivals, rate, warmup_s=warmup_s, requests=requests, duration_s=duration_s, seed=seed)


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


@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON])
def test_a_number_of_requests_is_counted_after_the_warmup(arrivals):
    offsets = schedule(arrivals, 50.0, warmup_s=2.0, requests=30)
    assert (offsets >= 2e9).sum() == 30


@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON])
def test_a_duration_ends_the_schedule(arrivals):
    offsets = schedule(arrivals, 100.0, warmup_s=1.0, duration_s=5.0)
    assert offsets.max() < 6e9
    assert len(offsets) == pytest.approx(600, rel=0.15)


def test_a_closed_loop_counts_only_what_is_sent_after_the_warmup():
    loop = ClosedLoop(concurrency=2, warm_ns=100, requests=2, end_ns=None)
    assert loop.take(50) == (50, True)
    assert loop.take(100) == (100, False)
    assert loop.next_due_ns(110, in_flight=1) == 110
    assert loop.next_due_ns(110, in_flight=2) is None
    loop.take(110)
    assert loop.ended(110)


def test_an_open_loop_holds_back_at_the_cap_and_says_so():
    loop = OpenLoop(np.array([0, 10, 20]), warm_ns=0, max_in_flight=1)
    assert loop.next_due_ns(0, in_flight=0) == 0
    loop.take(0)
    assert loop.next_due_ns(5, in_flight=1) is None
    assert not loop.capped
    assert loop.next_due_ns(15, in_flight=1) is None
    assert loop.capped
