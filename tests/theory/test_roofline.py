"""A measured run against its hardware: shares, energy, and the flag for what cannot be."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observatory.theory import roofline

BASE = roofline.Inputs(parameters_b=8.03, layers=32, accelerators=1, context=0, concurrency=1)


def test_a_run_at_the_limit_reaches_all_of_what_the_hardware_allows() -> None:
    at = roofline.limit(BASE)
    outputs = roofline.compute(replace(BASE, tpot_ms=at.step_s * 1e3, ttft_ms=at.prefill_s * 1e3))
    assert (outputs.decode_share, outputs.prefill_share) == (pytest.approx(100), pytest.approx(100))
    assert not outputs.beats_physics


def test_mbu_is_bytes_per_step_over_time_and_bandwidth() -> None:
    outputs = roofline.compute(replace(BASE, tpot_ms=10.0))
    assert outputs.mbu == pytest.approx(100 * 8.03e9 * 2 / 0.01 / 3350e9)
    assert outputs.bound == "memory"


def test_mfu_is_two_operations_per_parameter_and_token_over_peak() -> None:
    outputs = roofline.compute(replace(BASE, tpot_ms=10.0, ttft_ms=100.0, prompt_tokens=1000))
    assert outputs.decode_mfu == pytest.approx(100 * 2 * 8.03e9 / 0.01 / 990e12)
    assert outputs.prefill_mfu == pytest.approx(100 * 2 * 8.03e9 * 1000 / 0.1 / 990e12)


def test_energy_is_spread_over_the_bytes_and_tokens_of_a_step() -> None:
    outputs = roofline.compute(replace(BASE, tpot_ms=10.0, power_w=500.0, concurrency=4))
    assert outputs.j_per_token == pytest.approx(500 * 0.01 / 4)
    assert outputs.pj_per_byte == pytest.approx(5 / (8.03e9 * 2) * 1e12)


@pytest.mark.parametrize("faster", [{"tpot_ms": 1.0}, {"ttft_ms": 0.5}])
def test_what_beats_physics_is_flagged_with_what_to_check(faster: dict[str, float]) -> None:
    outputs = roofline.compute(replace(BASE, **faster))
    assert outputs.beats_physics
    assert "Check the token counts" in outputs.verdict


def test_what_was_not_measured_stays_missing() -> None:
    outputs = roofline.compute(replace(BASE, tpot_ms=None, ttft_ms=None))
    assert (outputs.mbu, outputs.prefill_share, outputs.j_per_token) == (None, None, None)
    assert outputs.verdict == "Nothing was measured."


@given(st.floats(0.1, 1000), st.floats(1.1, 10))
def test_a_slower_run_uses_less_of_the_hardware(tpot_ms: float, factor: float) -> None:
    fast, slow = (roofline.compute(replace(BASE, tpot_ms=t)).mbu for t in (tpot_ms, tpot_ms * factor))
    assert fast is not None
    assert slow == pytest.approx(fast / factor)
