"""The engine against a server that tells its own timing."""

import gc
import time

import numpy as np
import pytest

from runners.load.calibrate import Calibration, calibrate
from runners.load.judgement import Client
from runners.load.plan import fixed_stages
from runners.load.statistics import distribution, usual
from runners.load.summary import summarise_stage
from runners.spec import Arrivals, Load, RunSpec, Target
from tests.runners.load.test_summary import closed, table


class GiveUp(Exception):
    pass


def test_the_error_is_microseconds_where_the_machine_keeps_up():
    one, many = calibrate(Arrivals.CLOSED, (1, 32), 0.8)
    for found in (one, many):
        assert found.kind == "concurrency"
        assert abs(found.ttft_error_ms["mean"]) < 5
        assert 0 <= found.event_error_ms["p50"] < 1
    assert one.ttft_error_ms["p99"] is None  # a second holds too few requests for it
    assert many.events_per_s > 5 * one.events_per_s


def test_a_rate_is_calibrated_on_its_schedule_with_its_lag():
    (found,) = calibrate(Arrivals.CONSTANT, (50,), 1.0)
    assert found.kind == "rate"
    assert found.lag_ms["n"] == 50
    assert found.lag_ms["p50"] >= 0


def test_a_long_collection_takes_nothing_of_the_seconds():
    def long(phase: str, _: object) -> None:
        time.sleep(0.5 if phase == "start" else 0)

    gc.callbacks.append(long)
    try:
        (found,) = calibrate(Arrivals.CLOSED, (1,), 0.3)
    finally:
        gc.callbacks.remove(long)
    assert found.ttft_error_ms is not None


def test_it_can_be_given_up():
    def give_up(now_ns: int) -> None:
        raise GiveUp

    with pytest.raises(GiveUp):
        calibrate(Arrivals.CLOSED, (1,), 5.0, give_up)


def calibration(*, ttft_ms: float = 0.02, event_ms: float = 0.02) -> Calibration:
    def error(ms: float) -> dict[str, object] | None:
        return distribution(np.full(100, ms))

    return Calibration("concurrency", 1, 1000.0, error(ttft_ms), error(event_ms), error(0.1), 0.5, 9.0)


@pytest.mark.parametrize(
    ("errors", "verdict"), [({}, "ok"), ({"event_ms": 3.0}, "client_limited"), ({"ttft_ms": 8.0}, "client_limited")]
)
def test_an_error_too_large_beside_what_was_measured_limits_the_claim(errors, verdict):
    spec = RunSpec(Target("http://x"), load=Load(levels=(1.0,), requests=20))
    result = summarise_stage(
        table(closed(1, 20)), fixed_stages(spec)[0], spec,
        client=Client(busy_share=0.5, calibration=calibration(**errors)),
    )  # fmt: skip
    assert result["verdict"] == verdict
    if verdict != "ok":
        assert "it can hold about" in next(item["text"] for item in result["reasons"] if item["code"] == "client_error")


def test_one_hiccup_in_a_hundred_events_limits_nothing():
    once = distribution(np.array([0.02] * 99 + [30.0]))
    assert usual(once).ms < 0.1
