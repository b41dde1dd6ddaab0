"""Stamps on one monotonic clock."""

import select
import time

from runners.load.alarm import Alarm
from runners.load.receiver import KernelClock


def measured(behind_ns: int = 0) -> KernelClock:
    """One whose wall clock was stepped back by ``behind_ns`` since it was measured."""
    clock = KernelClock()
    clock.refresh(time.monotonic_ns())
    clock.offset_ns += behind_ns
    return clock


def test_a_kernel_stamp_lands_on_the_monotonic_clock():
    clock = measured()
    wall, now = time.time_ns(), time.monotonic_ns()
    assert abs(clock.stamp_ns(wall - 3_000_000, now) - (now - 3_000_000)) < 500_000
    assert (clock.kernel_stamps, clock.replaced) == (1, 0)


def test_a_stamp_that_a_step_of_the_wall_clock_made_implausible_gives_way_to_the_read():
    clock = measured()
    for step_s in (-3600, 3600):
        now = time.monotonic_ns()
        assert clock.stamp_ns(time.time_ns() + step_s * 10**9, now) == now
    assert (clock.kernel_stamps, clock.replaced) == (0, 2)


def test_a_stamp_before_what_it_answers_gives_way_to_the_read_and_the_offset_is_measured_anew():
    clock = measured(behind_ns=50_000_000)
    now = time.monotonic_ns()
    assert clock.stamp_ns(time.time_ns(), now, now - 10_000_000) == now
    assert clock.replaced == 1
    now = time.monotonic_ns()
    stamp = clock.stamp_ns(time.time_ns() - 1_000_000, now, now - 10_000_000)
    assert abs(stamp - (now - 1_000_000)) < 900_000
    assert clock.replaced == 1


def test_the_small_error_of_the_offset_moves_no_stamp_over_its_bounds():
    clock, now = measured(), time.monotonic_ns()
    wall = now + clock.offset_ns
    assert clock.stamp_ns(wall + 20_000, now) == now
    assert clock.stamp_ns(wall - 1_020_000, now, now - 1_000_000) == now - 1_000_000
    assert clock.replaced == 0


def test_the_offset_is_measured_again_within_ten_milliseconds():
    clock = measured(behind_ns=-5_000_000_000)
    clock.refresh(time.monotonic_ns() + 20_000_000)
    now = time.monotonic_ns()
    assert abs(clock.stamp_ns(time.time_ns() - 1_000_000, now) - (now - 1_000_000)) < 500_000
    assert clock.replaced == 0


def test_the_alarm_wakes_epoll_at_its_time():
    alarm, epoll = Alarm(), select.epoll()
    epoll.register(alarm.fd, select.EPOLLIN)
    due = time.monotonic_ns() + 20_000_000
    alarm.set(due)
    assert epoll.poll(2)
    assert time.monotonic_ns() >= due
    alarm.clear()
    assert not epoll.poll(0)
    alarm.set(time.monotonic_ns() - 1)
    assert epoll.poll(1)
    epoll.close()
    alarm.close()
