"""Every calculator, in the order in which they are listed."""

from typing import Any

from observatory.theory import (
    caching,
    decode,
    device,
    disaggregation,
    mixture,
    parallel,
    prefill,
    quantization,
    roofline,
    routing,
    smaller,
    speculation,
)
from observatory.theory.calculator import Calculator

#: What techniques of serving can gain.
TECHNIQUES: tuple[Calculator[Any, Any], ...] = (
    decode.DECODE_LIMIT,
    prefill.PREFILL,
    roofline.ROOFLINE,
    caching.KV_CACHE,
    caching.PREFIX_CACHE,
    speculation.SPECULATIVE,
    quantization.QUANTIZATION,
    smaller.SMALLER,
    mixture.MOE,
    routing.ROUTING,
    parallel.PARALLEL,
    disaggregation.DISAGGREGATION,
    device.ON_DEVICE,
)

#: Cost, energy and carbon.
ACCOUNTS: tuple[Calculator[Any, Any], ...] = ()

CALCULATORS = TECHNIQUES + ACCOUNTS
BY_NAME = {calculator.name: calculator for calculator in CALCULATORS}
