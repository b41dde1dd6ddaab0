"""Number formats: their values, rounding, scales."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from observatory.theory.formats import Format, Scope, levels, quantized, round_to, scales, stored_bits

FLOATS = st.floats(-1000, 1000)


def test_fp4_has_the_values_of_its_specification() -> None:
    assert levels(Format.FP4)[7:].tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]


def test_fp8_e4m3_reaches_448_and_its_smallest_is_2_to_the_minus_9() -> None:
    found = levels(Format.FP8)
    assert (found.size, found[-1]) == (253, 448)
    assert found[found > 0].min() == 2**-9


@pytest.mark.parametrize("form", list(Format))
@given(value=FLOATS)
def test_rounding_gives_the_nearest_value_of_the_format(form: Format, value: float) -> None:
    known = levels(form)
    (rounded,) = round_to(np.array([value]), form)
    assert rounded in known
    assert abs(rounded - value) == pytest.approx(np.abs(known - value).min())


@pytest.mark.parametrize("form", list(Format))
def test_every_value_of_a_format_rounds_to_itself(form: Format) -> None:
    assert (round_to(levels(form), form) == levels(form)).all()


@pytest.mark.parametrize(("value", "rounded"), [(0.25, 0), (0.75, 1), (1.25, 1), (1.75, 2), (2.5, 2), (3.5, 4), (5, 4)])
def test_ties_of_fp4_go_to_the_even_mantissa(value: float, rounded: float) -> None:
    assert round_to(np.array([value, -value]), Format.FP4).tolist() == [rounded, -rounded]


@pytest.mark.parametrize("scope", list(Scope))
@pytest.mark.parametrize("form", list(Format))
def test_the_largest_weight_of_each_scope_is_kept(form: Format, scope: Scope) -> None:
    weights = np.random.default_rng(1).normal(0, 1, (8, 100))
    rounded = quantized(weights, form, scope, 64)
    at = np.unravel_index(np.abs(weights).argmax(), weights.shape)
    assert rounded[at] == pytest.approx(weights[at])


def test_a_last_group_may_be_shorter() -> None:
    weights = np.ones((1, 100))
    weights[0, 64:] = 7
    assert scales(weights, Format.INT4, Scope.GROUP, 64)[0, [0, 63, 64, 99]].tolist() == [1 / 7, 1 / 7, 1, 1]


def test_zeros_stay_zeros() -> None:
    assert (quantized(np.zeros((2, 8)), Format.INT4, Scope.CHANNEL, 8) == 0).all()


def test_scales_cost_their_bits() -> None:
    assert stored_bits(Format.INT4, Scope.GROUP, 64, 1024, 256) == 4.25
    assert stored_bits(Format.INT8, Scope.CHANNEL, 64, 1024, 256) == 8 + 16 / 1024
