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
from observatory.theory.accounts.calculators import (
    api_cost,
    break_even,
    counters,
    duty_cycle,
    electricity_cost,
    energy_ledger,
    environment,
    gpu_cost,
    gpu_share,
    modelled,
    price_trend,
    speculative_energy,
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
ACCOUNTS: tuple[Calculator[Any, Any], ...] = (
    gpu_cost.GPU_COST,
    gpu_share.GPU_SHARE,
    api_cost.API_COST,
    break_even.BREAK_EVEN,
    electricity_cost.ELECTRICITY_COST,
    price_trend.PRICE_TREND,
    energy_ledger.ENERGY_LEDGER,
    duty_cycle.DUTY_CYCLE,
    electricity_cost.TOKENS_PER_MW,
    speculative_energy.SPECULATIVE_ENERGY,
    counters.COUNTER_DELTA,
    counters.INTEGRATE,
    modelled.ECOLOGITS,
    environment.CARBON,
    environment.WATER,
    environment.EMBODIED,
)

CALCULATORS = TECHNIQUES + ACCOUNTS
BY_NAME = {calculator.name: calculator for calculator in CALCULATORS}
