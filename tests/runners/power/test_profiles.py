"""Any profile of power, through the real NVML binding and source, against the energy that was scripted.

The scripted library integrates the profile, renews counter and sensors every 100 ms, shows a mean of 1 s and an instant
of 25 ms in 100; its clock is scripted as well. A GPU under load draws a third of its peak or more on average.
"""

from bisect import bisect_right

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from runners.power.energy import window_ledger

S = 1_000_000_000
FIRST_S = 13.0  # probing comes first, and a second of readings
WATTS = st.integers(50, 700)


class Profile:
    """Straight lines from point to point (seconds, watts), repeated after ``period_s``."""

    def __init__(self, points, period_s):
        self.points, self.period_s = points, period_s

    def script(self, gpu=0):
        points = " ".join(f"{at_s:.6f}:{watts * 1000}" for at_s, watts in self.points)
        return f"points {gpu} {points}\nrepeat {gpu} {self.period_s:.6f}\n"

    def energy_j(self, t_s):
        whole, part = divmod(t_s, self.period_s)
        return whole * self._area(self.period_s) + self._area(part)

    def between(self, start_s, end_s):
        return self.energy_j(end_s) - self.energy_j(start_s)

    def _area(self, t_s):
        total, last = 0.0, bisect_right([at_s for at_s, _ in self.points], t_s) - 1
        for (at_s, watts), (next_s, next_w) in zip(self.points[:last], self.points[1 : last + 1], strict=True):
            total += (next_s - at_s) * (watts + next_w) / 2
        at_s, watts = self.points[last]
        if last + 1 < len(self.points):
            next_s, next_w = self.points[last + 1]
            end_w = watts + (next_w - watts) * (t_s - at_s) / (next_s - at_s)
            return total + (t_s - at_s) * (watts + end_w) / 2
        return total + (t_s - at_s) * watts

    @property
    def busy(self):
        """Mean / peak."""
        return self._area(self.period_s) / self.period_s / max(watts for _, watts in self.points)


@st.composite
def squares(draw):
    period_s, duty = draw(st.floats(0.2, 20)), draw(st.floats(0.1, 0.9))
    low, high = draw(WATTS), draw(WATTS)
    return Profile([(0, high), (duty * period_s, high), (duty * period_s, low)], period_s)


@st.composite
def ramps(draw):
    period_s, top = draw(st.floats(1, 40)), draw(st.floats(0.1, 0.9))
    low, high = draw(WATTS), draw(WATTS)
    return Profile([(0, low), (top * period_s, high), (period_s, low)], period_s)


@st.composite
def bursts(draw):
    gaps = draw(st.lists(st.tuples(st.floats(0.05, 2), st.floats(0.05, 2), WATTS), min_size=1, max_size=12))
    low, at_s, points = draw(WATTS), 0.0, []
    for quiet_s, busy_s, watts in gaps:
        rise_s, fall_s = at_s + quiet_s, at_s + quiet_s + busy_s
        points += [(at_s, low), (rise_s, low), (rise_s, watts), (fall_s, watts)]
        at_s = fall_s
    return Profile([*points, (at_s, low)], at_s)


PROFILES = st.one_of(squares(), ramps(), bursts())
WINDOWS = st.tuples(st.floats(0, 1), st.floats(30, 40))
LATE_NS = st.lists(st.integers(0, 15_000_000), min_size=1, max_size=20)
MANY = settings(max_examples=15, deadline=None)


def measured(play, profile, window, late_ns, more="", ticks=980):
    samples, account = play("gpus 1\n" + profile.script() + more, ticks, late_ns)
    start_s, seconds = FIRST_S + window[0], window[1]
    ledger = window_ledger(samples, int(start_s * S), int((start_s + seconds) * S), description=account)
    return ledger, profile.between(start_s, start_s + seconds)


@MANY
@given(profile=PROFILES, window=WINDOWS, late_ns=LATE_NS)
def test_any_load_of_half_a_minute_or_more_is_right_by_counter_and_by_the_mean_of_hopper(
    play, profile, window, late_ns
):
    assume(profile.busy >= 1 / 3)
    ledger, truth_j = measured(play, profile, window, late_ns)
    instrument = ledger["instruments"][0]
    assert instrument["counter_j"] == pytest.approx(truth_j, rel=0.005)
    assert instrument["integral_j"] == pytest.approx(truth_j, rel=0.02)
    assert (instrument["verdict"], ledger["reasons"], ledger["short"]) == ("agree", [], False)


@MANY
@given(profile=PROFILES, window=WINDOWS, late_ns=LATE_NS)
def test_a_sensor_that_looks_at_all_of_the_time_is_right_by_its_instant_field(play, profile, window, late_ns):
    assume(
        profile.busy >= 0.4
    )  # an averaging time at either end, 0.2 s at the peak, is then below 2 % of half a minute
    ada = "arch 0 8\nname 0 NVIDIA L40S\ninstant_ms 100\n"
    ledger, truth_j = measured(play, profile, window, late_ns, ada)
    assert "field 186 (mean over 100 ms)" in ledger["layers"][0]["source"]
    assert ledger["instruments"][0]["integral_j"] == pytest.approx(truth_j, rel=0.02)


@MANY
@given(profile=PROFILES, window=WINDOWS, late_ns=LATE_NS)
def test_even_of_rare_bursts_the_counter_is_right_to_within_one_update_of_peak_power(play, profile, window, late_ns):
    ledger, truth_j = measured(play, profile, window, late_ns)
    peak_w = max(watts for _, watts in profile.points)
    assert abs(ledger["instruments"][0]["counter_j"] - truth_j) < 0.1 * peak_w


@settings(max_examples=10, deadline=None)
@given(
    profile=PROFILES,
    window=WINDOWS,
    factor=st.one_of(st.floats(0.5, 0.92), st.floats(1.08, 2)),
    liar=st.sampled_from(["counter_gain", "power_gain"]),
)
def test_the_two_disagree_when_either_lies(play, profile, window, factor, liar):
    assume(profile.busy >= 1 / 3)
    ledger, truth_j = measured(play, profile, window, [0], f"limit 0 2000000\n{liar} 0 {factor}\n")
    assert ledger["instruments"][0]["verdict"] == "disagree"
    assert [reason["code"] for reason in ledger["reasons"]] == ["disagree"]
    layer = ledger["layers"][0]
    assert layer["low_j"] < truth_j < layer["high_j"]


@pytest.mark.parametrize("liar", ["counter_gain 1 1.15", "power_gain 1 0.85"])
def test_a_liar_among_several_is_named_and_widens_the_band_of_all(play, liar):
    steady = "".join(f"constant {gpu} {100_000 * (gpu + 1)}\n" for gpu in range(3))
    samples, account = play(f"gpus 3\n{steady}{liar}\n", 900, [0])
    ledger = window_ledger(samples, 13 * S, 45 * S, description=account)
    assert [one["verdict"] for one in ledger["instruments"]] == ["agree", "disagree", "agree"]
    assert [reason["code"] for reason in ledger["reasons"]] == ["disagree"]
    layer = ledger["layers"][0]
    assert layer["low_j"] < 600 * 32 < layer["high_j"]
    assert layer["high_j"] - layer["low_j"] > 0.1 * 200 * 32 + 0.1 * 600 * 32 * 0.95


@settings(max_examples=5, deadline=None)
@given(profiles=st.lists(PROFILES, min_size=2, max_size=4), window=WINDOWS, late_ns=LATE_NS)
def test_gpus_with_beats_and_phases_of_their_own_add_up(play, profiles, window, late_ns):
    assume(all(profile.busy >= 1 / 3 for profile in profiles))
    script = f"gpus {len(profiles)}\n" + "".join(profile.script(gpu) for gpu, profile in enumerate(profiles))
    script += "".join(f"update_ms {gpu} {(100, 97, 104, 60)[gpu]}\nphase_ms {gpu} {23 * gpu}\n" for gpu in range(4))
    samples, account = play(script, 1900, late_ns)
    start_s, end_s = FIRST_S + window[0], FIRST_S + window[0] + window[1]
    ledger = window_ledger(samples, int(start_s * S), int(end_s * S), description=account)
    assert ledger["it_j"] == pytest.approx(sum(one.between(start_s, end_s) for one in profiles), rel=0.005)
