import numpy as np
import pytest

from runners.power.instruments import counter_energy, fresh, power_integral

S = 1_000_000_000
UPDATE = S // 10


def times(seconds, period_s=0.05, start_s=-2.0):
    return (np.arange(start_s, seconds, period_s) * S).astype(np.int64)


def stepping(t_ns, watts, update_s=0.1):
    """A counter in mJ that shows the energy of constant power up to its last update."""
    return np.floor(t_ns / S / update_s + 1e-9) * update_s * watts * 1e3 + 1e6


def test_a_counter_that_steps_gives_constant_power_exactly():
    t_ns = times(14)
    reading = counter_energy(t_ns, stepping(t_ns, 250), 0, 10 * S, update_ns=UPDATE)
    assert reading.energy_j == pytest.approx(2500, rel=1e-9)


def test_window_edges_between_two_steps_are_interpolated():
    t_ns = times(14)
    reading = counter_energy(t_ns, stepping(t_ns, 250), S // 30, 5 * S + S // 13, update_ns=UPDATE)
    assert reading.energy_j == pytest.approx(250 * (5 + 1 / 13 - 1 / 30), rel=1e-9)


def test_a_thousand_millijoules_are_one_joule():
    t_ns = times(14)
    assert counter_energy(t_ns, t_ns / S * 1000, 0, S, update_ns=UPDATE).energy_j == pytest.approx(1)


def test_a_decrease_of_a_counter_that_never_wraps_is_a_reset_and_never_a_huge_number():
    t_ns = times(14)
    energy_mj = stepping(t_ns, 300)
    energy_mj[t_ns >= 5 * S] -= energy_mj[t_ns >= 5 * S][0]
    reading = counter_energy(t_ns, energy_mj, 0, 10 * S, update_ns=UPDATE)
    assert (reading.energy_j, reading.reason) == (None, "counter_reset")


def test_windows_before_and_after_a_reset_keep_their_numbers():
    t_ns = times(14)
    energy_mj = stepping(t_ns, 300)
    energy_mj[t_ns >= 5 * S] -= energy_mj[t_ns >= 5 * S][0]
    for start, end in ((0, 4), (6, 10)):
        reading = counter_energy(t_ns, energy_mj, start * S, end * S, update_ns=UPDATE)
        assert reading.energy_j == pytest.approx(1200)


def test_a_small_decrease_counts_as_one_too():
    t_ns = times(14)
    energy_mj = np.where(t_ns < 5 * S, 1_000_000 + t_ns / S, 999_990 + t_ns / S)
    assert counter_energy(t_ns, energy_mj, 0, 10 * S, update_ns=UPDATE).reason == "counter_reset"


def test_a_wrap_is_made_whole_by_the_range():
    t_ns = times(14)
    whole = 262_143_000 + t_ns / S * 100e3
    reading = counter_energy(
        t_ns, whole % 262_143_328.85, 0, 10 * S, update_ns=UPDATE, wraps=True, wraps_at_mj=262_143_328.85
    )
    assert reading.energy_j == pytest.approx(1000)


def test_several_wraps_in_one_window_all_count():
    t_ns = times(14)
    whole = t_ns / S * 200e3 + 1e6
    reading = counter_energy(t_ns, whole % 500e3, 0, 10 * S, update_ns=UPDATE, wraps=True, wraps_at_mj=500e3)
    assert reading.energy_j == pytest.approx(2000)


def test_a_wrap_without_a_known_range_cannot_be_resolved():
    t_ns = times(14)
    energy_mj = np.where(t_ns < 5 * S, 262_143_000, 500) + t_ns / S
    reading = counter_energy(t_ns, energy_mj, 0, 10 * S, update_ns=UPDATE, wraps=True)
    assert (reading.energy_j, reading.reason) == (None, "wrap_unresolvable")


def test_a_wrap_that_would_mean_impossible_power_is_a_reset():
    t_ns = times(14)
    energy_mj = np.where(t_ns < 5 * S, 90_000_000, 0) + t_ns / S * 100e3 + 1e6
    reading = counter_energy(t_ns, energy_mj, 0, 10 * S, update_ns=UPDATE, wraps=True, wraps_at_mj=262_143_328.85)
    assert reading.reason == "counter_reset"


def test_a_counter_that_stands_still_is_stale():
    t_ns = times(14)
    assert counter_energy(t_ns, np.full(len(t_ns), 5e6), 0, 10 * S, update_ns=UPDATE).reason == "counter_stale"


def test_a_counter_that_stops_amid_the_window_is_stale():
    t_ns = times(14)
    energy_mj = np.minimum(stepping(t_ns, 300), 4 * 300e3 + 1e6)
    assert counter_energy(t_ns, energy_mj, 0, 10 * S, update_ns=UPDATE).reason == "counter_stale"


def test_a_counter_that_pauses_for_longer_than_three_seconds_is_stale():
    t_ns = times(14)
    energy_mj = stepping(t_ns, 300)
    energy_mj[(t_ns > 3 * S) & (t_ns < 7 * S)] = energy_mj[t_ns == 3 * S][0]
    assert counter_energy(t_ns, energy_mj, 0, 10 * S, update_ns=UPDATE).reason == "counter_stale"


def test_a_window_that_readings_do_not_surround_has_no_number():
    t_ns = times(10)
    energy_mj = stepping(t_ns, 300)
    for start, end in ((-3, 5), (0, 11)):
        assert counter_energy(t_ns, energy_mj, start * S, end * S, update_ns=UPDATE).reason == "window_not_bracketed"
        assert power_integral(t_ns, energy_mj, start * S, end * S).reason == "window_not_bracketed"
    nothing = np.array([], dtype=np.int64)
    assert counter_energy(nothing, nothing * 1.0, 0, S, update_ns=UPDATE).reason == "window_not_bracketed"
    assert power_integral(nothing, nothing * 1.0, 0, S).reason == "window_not_bracketed"


def test_more_than_three_seconds_without_a_reading_is_a_gap():
    t_ns = times(14)
    t_ns = t_ns[(t_ns < 3 * S) | (t_ns > 7 * S)]
    assert counter_energy(t_ns, stepping(t_ns, 300), 0, 10 * S, update_ns=UPDATE).reason == "sampling_gap"
    assert power_integral(t_ns, t_ns * 0.0 + 300e3, 0, 10 * S).reason == "sampling_gap"


def test_a_gap_outside_the_window_does_no_harm():
    t_ns = times(30)
    t_ns = t_ns[(t_ns < 12 * S) | (t_ns > 20 * S)]
    assert counter_energy(t_ns, stepping(t_ns, 300), 0, 10 * S, update_ns=UPDATE).energy_j == pytest.approx(3000)
    assert power_integral(t_ns, t_ns * 0.0 + 300e3, 0, 10 * S).energy_j == pytest.approx(3000)


def test_constant_power_integrates_exactly_whatever_the_edges():
    t_ns = times(14)
    reading = power_integral(t_ns, np.full(len(t_ns), 250e3), S // 7, 10 * S + S // 7)
    assert reading.energy_j == pytest.approx(2500, rel=1e-9)


def test_0_3_kw_for_two_hours_are_0_6_kwh():
    t_ns = times(7210, period_s=1.0)
    energy_j = power_integral(t_ns, np.full(len(t_ns), 0.3e6), 0, 7200 * S).energy_j
    assert energy_j / 3.6e6 == pytest.approx(0.6)


def test_a_reading_that_is_a_mean_is_dated_at_the_centre_of_its_mean():
    t_ns = times(14)
    power_w = 20 * (t_ns / S - 0.5)  # the one-second mean of a ramp of 20 W/s
    reading = power_integral(t_ns, power_w * 1e3, 0, 10 * S, window_ns=S)
    assert reading.energy_j == pytest.approx(1000, rel=1e-6)


def test_a_short_burst_is_not_stretched_over_the_window():
    """Busy for all but the instants at which power is looked at: the counter over the whole interval tells."""
    t_ns = times(14, period_s=0.1)
    busy = stepping(t_ns, 200)
    assert counter_energy(t_ns, busy, 0, 10 * S, update_ns=UPDATE).energy_j == pytest.approx(2000)
    assert power_integral(t_ns, t_ns * 0.0 + 5e3, 0, 10 * S).energy_j == pytest.approx(50)


def test_a_reading_that_repeats_stamp_and_value_is_not_new():
    stamps, values = np.array([1, 1, 2, 2, 2]), np.array([5.0, 5.0, 5.0, 5.0, 6.0])
    assert fresh(stamps, values).tolist() == [True, False, True, False, True]
    assert fresh(stamps[:0], values[:0]).tolist() == []


def test_readings_that_come_late_and_now_and_then_not_at_all_still_date_the_steps_of_a_counter():
    generator = np.random.default_rng(3)
    pauses_s = np.where(
        generator.random(800) < 0.05, generator.uniform(0.2, 0.9, 800), generator.uniform(0.03, 0.065, 800)
    )
    t_ns = ((np.cumsum(pauses_s) - 2) * S).astype(np.int64)
    energy_mj = stepping(t_ns, 250)
    errors = [
        counter_energy(t_ns, energy_mj, start, start + 10 * S, update_ns=update_ns).energy_j / 2500 - 1
        for start in range(0, 20 * S, S // 3)
        for update_ns in (UPDATE, int(0.97 * UPDATE))
    ]
    assert np.abs(errors).max() < 0.003


def test_steps_without_a_beat_are_dated_between_the_readings_that_show_them():
    generator = np.random.default_rng(4)
    moved_s = np.cumsum(generator.uniform(0.05, 0.25, 300)) - 3
    t_ns = times(30)
    energy_mj = np.searchsorted(moved_s, t_ns / S) * 1e3
    reading = counter_energy(t_ns, energy_mj, 0, 20 * S, update_ns=UPDATE)
    assert reading.energy_j == pytest.approx(np.searchsorted(moved_s, 20) - np.searchsorted(moved_s, 0), abs=2)
