"""The engine against a server that tells its own timing."""

import pytest

from runners.load.calibrate import Calibration, calibrate
from runners.load.summary import Client, summarise_stage
from runners.spec import Arrivals, Load, RunSpec, Target
from tests.runners.load.test_summary import closed, table


class GiveUp(Exception):
    pass


def test_the_error_is_microseconds_where_the_machine_keeps_up():
    one, many = calibrate(Arrivals.CLOSED, (1, 32), 0.8)
    for found in (one, many):
        assert found.kind == "concurrency"
        assert abs(found.ttft_error_p50_ms) < 1
        assert 0 <= found.event_error_p50_ms < 1
    assert many.events_per_s > 5 * one.events_per_s


def test_a_rate_is_calibrated_on_its_schedule_with_its_lag():
    (found,) = calibrate(Arrivals.CONSTANT, (50,), 1.0)
    assert found.kind == "rate"
    assert found.requests == 50
    assert found.lag_p99_ms >= 0


def test_it_can_be_given_up():
    def give_up(now_ns: int) -> None:
        raise GiveUp

    with pytest.raises(GiveUp):
        calibrate(Arrivals.CLOSED, (1,), 5.0, give_up)


def calibration(**errors: float) -> Calibration:
    return Calibration(**{
        "kind": "concurrency", "value": 1, "requests": 10, "events_per_s": 1000.0, "ttft_error_p50_ms": 0.01,
        "ttft_error_p99_ms": 0.02, "event_error_p50_ms": 0.01, "event_error_p99_ms": 0.02, "event_error_max_ms": 0.1,
        "lag_p99_ms": 0.1, "busy_share": 0.5, "cpu_us_per_event": 9.0,
    } | errors)  # fmt: skip


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [({}, "ok"), ({"event_error_p99_ms": 3.0}, "client_limited"), ({"ttft_error_p99_ms": 8.0}, "client_limited")],
)
def test_an_error_too_large_beside_what_was_measured_limits_the_claim(errors, verdict):
    spec = RunSpec(Target("http://x"), load=Load(levels=(1.0,), requests=20))
    result = summarise_stage(table(closed(1, 20)), 0, spec, client=Client(calibration=calibration(**errors)))
    assert result["verdict"] == verdict
    if verdict != "ok":
        assert "1800 events/s" in next(item["text"] for item in result["reasons"] if item["code"] == "client_error")
