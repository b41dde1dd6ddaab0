"""Stamps on one monotonic clock."""

import select
import struct
import time

from runners.load.clock import Alarm, KernelClock


def timespec(wall_ns: int) -> bytes:
    return struct.pack("qq", wall_ns // 10**9, wall_ns % 10**9)


def test_a_kernel_stamp_lands_on_the_monotonic_clock():
    clock = KernelClock()
    wall, now = time.time_ns(), time.monotonic_ns()
    assert abs(clock.stamp_ns(timespec(wall - 3_000_000), now) - (now - 3_000_000)) < 500_000


def test_a_stamp_that_a_step_of_the_wall_clock_made_implausible_gives_way_to_the_read():
    clock = KernelClock()
    for step_s in (-3600, 3600):
        now = time.monotonic_ns()
        assert clock.stamp_ns(timespec(time.time_ns() + step_s * 10**9), now) == now
    assert clock.replaced == 2


def test_a_stamp_before_what_it_answers_gives_way_to_the_read_and_the_offset_is_measured_anew(monkeypatch):
    clock = KernelClock()
    real, step_ns = time.clock_gettime_ns, -50_000_000
    monkeypatch.setattr("runners.load.clock.clock_gettime_ns", lambda which: real(which) + step_ns)
    now = time.monotonic_ns()
    assert clock.stamp_ns(timespec(time.time_ns() + step_ns), now, now - 10_000_000) == now
    assert clock.replaced == 1
    now = time.monotonic_ns()
    stamp = clock.stamp_ns(timespec(time.time_ns() + step_ns - 1_000_000), now, now - 10_000_000)
    assert abs(stamp - (now - 1_000_000)) < 900_000
    assert clock.replaced == 1


def test_the_offset_is_measured_again_within_ten_milliseconds(monkeypatch):
    clock = KernelClock()
    real = time.clock_gettime_ns
    monkeypatch.setattr("runners.load.clock.clock_gettime_ns", lambda which: real(which) + 5_000_000_000)
    now = time.monotonic_ns() + 20_000_000
    clock.refresh(now)
    stepped = timespec(time.time_ns() + 5_000_000_000 - 1_000_000)
    now = time.monotonic_ns()
    assert abs(clock.stamp_ns(stepped, now) - (now - 1_000_000)) < 500_000
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
