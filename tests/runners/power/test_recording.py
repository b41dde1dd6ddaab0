"""One recording of scripted GPUs by the real sampler and NVML binding, judged against the energy that was scripted.

Counter and sensors update every 100 ms as on real cards, so a window of ten seconds holds a hundred updates.
"""

import time

import pytest

from runners.load.records import read_spool
from runners.power.energy import mean_power_w, window_ledger
from runners.power.sampler import Sampler
from runners.power.samples import SCHEMA
from runners.spec import Power

S = 1_000_000_000
WINDOW_S = 10
LONG_S = 31
EVENT_S = 8.0

CONSTANT, STEP, SQUARE, RESET, LOST, LYING, NO_COUNTER, STALE, OLD_DRIVER, A100, TOO_HOT = range(11)
FOUR = (11, 12, 13, 14)
SCRIPT = f"""
gpus 15
constant {CONSTANT} 250000
step {STEP} 100000 400000 {EVENT_S}
square {SQUARE} 100000 400000 0.7
constant {RESET} 300000
reset {RESET} {EVENT_S}
constant {LOST} 300000
lost {LOST} {EVENT_S}
constant {LYING} 300000
counter_gain {LYING} 1.2
constant {NO_COUNTER} 250000
unsupported {NO_COUNTER} energy
unsupported {NO_COUNTER} energy_call
constant {STALE} 300000
stale {STALE} {EVENT_S}
constant {OLD_DRIVER} 250000
unsupported {OLD_DRIVER} fields
arch {A100} 7
name {A100} NVIDIA A100-SXM4-80GB
square {A100} 150000 350000 0.37
unsupported {A100} mean
constant {TOO_HOT} 900000
limit {TOO_HOT} 700000
""" + "".join(f"constant {i} 300000\n" for i in FOUR)


class Recording:
    def __init__(self, samples, account, t0_ns, start_ns):
        self.samples, self.account, self.t0_ns, self.start_ns = samples, account, t0_ns, start_ns

    def of(self, *gpus):
        """The account with these GPUs alone."""
        return self.account | {"devices": [self.account["devices"][gpu] for gpu in gpus]}

    def series(self, gpu):
        device_id = self.account["devices"][gpu]["id"]
        return [row for row in self.samples.to_pylist() if row["device"] == device_id]

    def ledger(self, *gpus, start_s=0.0, end_s=WINDOW_S):
        start, end = self.start_ns + int(start_s * S), self.start_ns + int(end_s * S)
        return window_ledger(self.samples, start, end, description=self.of(*gpus))

    def truth_j(self, energy_j, seconds=WINDOW_S):
        """Energy in the window by the profile's own integral from t0."""
        start_s = (self.start_ns - self.t0_ns) / S
        return energy_j(start_s + seconds) - energy_j(start_s)


@pytest.fixture(scope="module")
def recording(nvml_library, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", str(nvml_library))
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        for _ in range(5):  # a busy machine may take so long that the events are over
            out = tmp_path_factory.mktemp("recording")
            t0_ns = time.monotonic_ns()
            (out / "gpus").write_text(f"t0_ns {t0_ns}\n{SCRIPT}")
            patch.setenv("NVML_SCRIPT", str(out / "gpus"))
            sampler = Sampler.start(Power(source="nvml"), out)
            time.sleep(1.2)
            start_ns = time.monotonic_ns()
            if (start_ns - t0_ns) / S < EVENT_S - 2.2:
                break
            sampler.stop()
        else:
            pytest.fail("this machine was too slow to start the sampler")
    time.sleep(LONG_S)
    sampler.stop()
    return Recording(read_spool(out / "power.arrow", SCHEMA), sampler.describe(), t0_ns, start_ns)


def step_j(t_s):
    return 100 * t_s + 300 * max(0.0, t_s - EVENT_S)


def square_j(low_w, high_w, period_s):
    def energy_j(t_s):
        whole, part = divmod(t_s, period_s)
        half = period_s / 2
        return whole * half * (low_w + high_w) + low_w * min(part, half) + high_w * max(0.0, part - half)

    return energy_j


@pytest.mark.parametrize(
    ("gpu", "energy_j"),
    [(CONSTANT, lambda t_s: 250 * t_s), (STEP, step_j), (SQUARE, square_j(100, 400, 0.7))],
    ids=["constant", "step", "square"],
)
def test_counter_and_integral_meet_the_truth(recording, gpu, energy_j):
    instrument = recording.ledger(gpu)["instruments"][0]
    truth_j = recording.truth_j(energy_j)
    assert instrument["counter_j"] == pytest.approx(truth_j, rel=0.005)
    assert instrument["integral_j"] == pytest.approx(truth_j, rel=0.02)
    assert instrument["verdict"] == "agree"


@pytest.mark.parametrize(
    ("gpu", "energy_j"),
    [(CONSTANT, lambda t_s: 250 * t_s), (STEP, step_j), (SQUARE, square_j(100, 400, 0.7))],
    ids=["constant", "step", "square"],
)
def test_half_a_minute_is_no_longer_short_and_meets_the_truth(recording, gpu, energy_j):
    ledger = recording.ledger(gpu, end_s=LONG_S)
    truth_j = recording.truth_j(energy_j, LONG_S)
    assert ledger["it_j"] == pytest.approx(truth_j, rel=0.005)
    assert ledger["instruments"][0]["integral_j"] == pytest.approx(truth_j, rel=0.02)
    assert (ledger["short"], ledger["reasons"]) == (False, [])


def test_the_truth_lies_in_the_band(recording):
    layer = recording.ledger(SQUARE)["layers"][0]
    assert layer["low_j"] < recording.truth_j(square_j(100, 400, 0.7)) < layer["high_j"]


def test_four_gpus_of_300_w_take_12000_j_in_ten_seconds(recording):
    ledger = recording.ledger(*FOUR)
    assert ledger["it_j"] == ledger["narrow_j"] == pytest.approx(12_000, rel=0.005)
    assert ledger["layers"][0]["label"] == "4 × NVIDIA H200"
    start, end = recording.start_ns, recording.start_ns + WINDOW_S * S
    assert mean_power_w(recording.samples, start, end, description=recording.of(*FOUR)) == pytest.approx(
        1200, rel=0.005
    )


def test_a_reset_amid_the_window_makes_it_invalid(recording):
    ledger = recording.ledger(RESET)
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "counter_reset")
    assert recording.ledger(RESET, end_s=2.1)["it_j"] == pytest.approx(630, rel=0.01)


def test_a_lost_gpu_ends_its_series_and_the_others_go_on(recording):
    ledger = recording.ledger(LOST, CONSTANT)
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "gpu_lost")
    assert [row["counter_j"] for row in ledger["instruments"]] == [None, pytest.approx(2500, rel=0.005)]
    assert recording.ledger(LOST, end_s=2.1)["it_j"] == pytest.approx(630, rel=0.01)
    series = recording.series(LOST)
    assert [row["reason"] for row in series if row["reason"]] == ["gpu_lost"]
    assert series[-1]["reason"] == "gpu_lost"
    assert series[-1]["power_mw"] is None
    assert "gpu_lost" in [note["code"] for note in recording.account["notes"]]


def test_a_counter_that_lies_is_caught_by_the_power_integral(recording):
    ledger = recording.ledger(LYING)
    instrument = ledger["instruments"][0]
    assert (instrument["verdict"], ledger["reasons"][0]["code"]) == ("disagree", "disagree")
    assert instrument["counter_j"] == pytest.approx(3600, rel=0.005)
    assert instrument["integral_j"] == pytest.approx(3000, rel=0.02)


def test_a_counter_that_stops_is_stale_and_not_believed(recording):
    ledger = recording.ledger(STALE)
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "counter_stale")


@pytest.mark.parametrize(("gpu", "method"), [(NO_COUNTER, "power_integral"), (OLD_DRIVER, "counter")])
def test_250_w_for_ten_seconds_are_2500_j_without_counter_or_fields(recording, gpu, method):
    ledger = recording.ledger(gpu)
    assert ledger["it_j"] == pytest.approx(2500, rel=0.02)
    assert ledger["layers"][0]["method"] == method


def test_a_sensor_that_looks_a_quarter_of_the_time_is_checked_by_its_instant_field(recording):
    ledger = recording.ledger(A100)
    assert ledger["it_j"] == pytest.approx(recording.truth_j(square_j(150, 350, 0.37)), rel=0.005)
    assert "field 186 (mean over 25 ms)" in ledger["layers"][0]["source"]
    assert "sensor_part_time" in [note["code"] for note in recording.account["notes"]]


def test_power_above_the_limit_is_not_believed(recording):
    ledger = recording.ledger(TOO_HOT)
    assert (ledger["it_j"], ledger["reasons"][0]["code"]) == (None, "power_out_of_range")


def test_ticks_are_a_little_less_than_half_an_update_apart(recording):
    assert recording.account["period_ms"] == pytest.approx(100 / 2.1)
    assert len(recording.series(CONSTANT)) > 0.8 * (LONG_S + 2) / 0.05
