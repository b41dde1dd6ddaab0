"""Number formats of quantized weights, and rounding to them under a scale.

FP8 E4M3 without infinities: OCP 8-bit Floating Point Specification 1.0 (2023). FP4 E2M1: OCP Microscaling Formats 1.0
(2023). Integers are symmetric: -(2^(b-1)-1) to 2^(b-1)-1.
"""

from enum import StrEnum
from functools import cache

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


class Format(StrEnum):
    INT8 = "int8"
    INT4 = "int4"
    FP8 = "fp8-e4m3"
    FP4 = "fp4-e2m1"


class Scope(StrEnum):
    """How many weights share a scale; a channel is an output row."""

    TENSOR = "per-tensor"
    CHANNEL = "per-channel"
    GROUP = "per-group"


_BITS = {Format.INT8: 8, Format.INT4: 4, Format.FP8: 8, Format.FP4: 4}
_SCALE_BITS = 16
#: Of the formats with an exponent: bits of the mantissa, and bias of the exponent.
_FLOATS = {Format.FP8: (3, 7), Format.FP4: (1, 1)}


def bits(form: Format) -> int:
    return _BITS[form]


def stored_bits(form: Format, scope: Scope, group: int, columns: int, rows: int) -> float:
    """Bits per weight with a 16-bit scale for each scope."""
    shared = {Scope.TENSOR: rows * columns, Scope.CHANNEL: columns, Scope.GROUP: group}[scope]
    return _BITS[form] + _SCALE_BITS / shared


@cache
def levels(form: Format) -> Matrix:
    """Every value that the format has, ascending, from the most negative to the largest."""
    if form in (Format.INT8, Format.INT4):
        top = 2 ** (_BITS[form] - 1) - 1
        return np.arange(-top, top + 1, dtype=np.float64)
    positive = _floats(4, 3, 7, 448.0) if form is Format.FP8 else _floats(2, 1, 1, 6.0)
    return np.unique(np.concatenate([-positive, positive]))


def _floats(exponent_bits: int, mantissa_bits: int, bias: int, largest: float) -> Matrix:
    steps = 2**mantissa_bits
    values = [mantissa / steps * 2.0 ** (1 - bias) for mantissa in range(steps)]
    values += [
        (1 + mantissa / steps) * 2.0 ** (exponent - bias)
        for exponent in range(1, 2**exponent_bits)
        for mantissa in range(steps)
    ]
    return np.array([value for value in values if value <= largest])


def round_to(values: Matrix, form: Format) -> Matrix:
    """The nearest value of the format; ties to even, values beyond the range to its end."""
    step: Matrix | float = 1.0
    if form in _FLOATS:
        mantissa_bits, bias = _FLOATS[form]
        _, exponents = np.frexp(np.abs(values))
        step = np.ldexp(1.0, np.maximum(exponents - 1, 1 - bias) - mantissa_bits)
    top = levels(form)[-1]
    rounded: Matrix = np.clip(np.rint(values / step) * step, -top, top)
    return rounded


def scales(weights: Matrix, form: Format, scope: Scope, group: int) -> Matrix:
    """max|w| / largest level over each scope, as a matrix that divides ``weights`` element by element."""
    top = levels(form)[-1]
    if scope is Scope.TENSOR:
        largest = np.full(weights.shape, np.abs(weights).max())
    elif scope is Scope.CHANNEL:
        largest = np.repeat(np.abs(weights).max(axis=1, keepdims=True), weights.shape[1], axis=1)
    else:
        starts = np.arange(0, weights.shape[1], group)
        per_group = np.maximum.reduceat(np.abs(weights), starts, axis=1)
        largest = np.repeat(per_group, np.diff([*starts, weights.shape[1]]), axis=1)
    found: Matrix = np.where(largest > 0, largest / top, 1.0)
    return found


def quantized(weights: Matrix, form: Format, scope: Scope, group: int) -> Matrix:
    """Weights rounded to nearest under their scales, as real numbers again."""
    scale = scales(weights, form, scope, group)
    return round_to(weights / scale, form) * scale
