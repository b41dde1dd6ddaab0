"""Energy from two readings of a counter, and from readings of power: the instrument's own functions."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from observatory.theory.calculator import Calculator, refuse
from observatory.theory.fields import choice, number, result, series, switch
from runners.power.energy import LIMIT_TOLERANCE, MIN_UPDATES
from runners.power.instruments import REASONS, counter_rise, power_integral


class CounterUnit(StrEnum):
    """What one count is. AMD's accumulator counts steps of 15.259 microjoules (amdsmi_get_energy_count)."""

    MJ = "mJ"
    UJ = "uJ"
    J = "J"
    AMD = "15.259 uJ"


_MJ = {CounterUnit.MJ: 1.0, CounterUnit.UJ: 1e-3, CounterUnit.J: 1e3, CounterUnit.AMD: 15.259e-3}


@dataclass(frozen=True)
class CounterInputs:
    start: float = number(1_000_000, "", "First reading", "In counts.", low=0, high=1.8446744073709552e19)
    end: float = number(1_430_113, "", "Last reading", "In counts.", low=0, high=1.8446744073709552e19)
    unit: CounterUnit = choice(CounterUnit.MJ, "A count", "NVML counts mJ, RAPL uJ.")
    seconds: float = number(30, "s", "Time between", "", low=0, high=1e8)
    update_ms: float = number(100, "ms", "Update period", "Of the counter: about 100 ms at NVML.", low=0, high=1e6)
    wraps: bool = switch(False, "Wraps", "RAPL starts again from 0; NVML never does: its decrease is a reset.")
    wraps_at: float | None = number(
        None, "", "Wraps at", "In counts (max_energy_range_uj of RAPL). Empty: unreadable.", low=1, high=1.9e19
    )
    power_limit_w: float | None = number(None, "W", "Power limit", "Of the card, for a sanity check.", low=0, high=1e6)
    mean_power_w: float | None = number(
        None, "W", "Mean of power readings", "Of the same time, to tell a stuck counter.", low=0, high=1e6
    )


@dataclass(frozen=True)
class CounterOutputs:
    energy_j: float | None = result("J", "Energy", "Missing when the readings cannot be trusted.", decimals=6)
    mean_power_w: float | None = result("W", "Mean power")
    edge_j: float | None = result("J", "Uncertainty of the edges", "One update period of power at each end.")
    reason: str = result(label="Why there is no number", default="")
    advice: str = result(label="What to do", default="")


def compute_counter(inputs: CounterInputs) -> CounterOutputs:
    reason, energy_j = _counted(inputs)
    if reason or energy_j is None:
        return CounterOutputs(None, None, None, reason, REASONS[reason])
    mean_w = energy_j / inputs.seconds
    return CounterOutputs(energy_j, mean_w, 2 * mean_w * inputs.update_ms / 1e3)


def _counted(inputs: CounterInputs) -> tuple[str, float | None]:
    if inputs.seconds <= 0 or inputs.seconds * 1e3 < MIN_UPDATES * inputs.update_ms:
        return "window_too_short", None
    scale = _MJ[inputs.unit]
    reading = counter_rise(
        inputs.start * scale,
        inputs.end * scale,
        round(inputs.seconds * 1e9),
        wraps=inputs.wraps,
        wraps_at_mj=None if inputs.wraps_at is None else inputs.wraps_at * scale,
    )
    if reading.energy_j is None:
        return reading.reason, None
    mean_w = reading.energy_j / inputs.seconds
    if inputs.power_limit_w is not None and mean_w > LIMIT_TOLERANCE * inputs.power_limit_w:
        return "power_out_of_range", None
    if reading.energy_j == 0 and (inputs.mean_power_w or 0) > 0:
        return "counter_stale", None
    return "", reading.energy_j


COUNTER_DELTA = Calculator(
    name="counter-delta",
    title="Energy from a counter",
    subject="Energy",
    summary="Joules between two readings of an energy counter, or the reason why there is no number: a reset, a wrap "
    "that cannot be resolved, too short a time, a stuck counter, impossible power.",
    inputs=CounterInputs,
    outputs=CounterOutputs,
    compute=compute_counter,
    formula=("E = (end − start) × unit", "a decrease is a wrap only where the counter wraps and its range is known"),
    source="The instrument's own rules: docs/power.md.",
    assumptions=(f"Fewer than {MIN_UPDATES} update periods give no number.",),
)


@dataclass(frozen=True)
class IntegralInputs:
    t_s: tuple[float, ...] = series((0, 1, 2, 3), "s", "Times", "Of the readings, rising.", low=-1e9, high=1e9)
    power_w: tuple[float, ...] = series(
        (100, 100, 100, 100), "W", "Power", "One reading for each time.", low=0, high=1e7
    )
    second_t_s: tuple[float, ...] = series((), "s", "Times of a second device", "May be empty.", low=-1e9, high=1e9)
    second_power_w: tuple[float, ...] = series(
        (), "W", "Power of a second device", "Each device is integrated by itself, then they are added.",
        low=0, high=1e7,
    )  # fmt: skip
    from_s: float = number(0.5, "s", "Window from", "", low=-1e9, high=1e9)
    to_s: float = number(2.5, "s", "Window to", "", low=-1e9, high=1e9)
    gain: float = number(
        1, "", "Gain", "A reading is gain × truth + offset, where the card was measured so.", low=0.1, high=10
    )
    offset_w: float = number(0, "W", "Offset", "Of a reading.", low=-1e5, high=1e5)
    mean_ms: float = number(
        0, "ms", "Averaging time", "Each reading is the mean over so long before it.", low=0, high=1e5
    )


@dataclass(frozen=True)
class IntegralOutputs:
    energy_j: float | None = result("J", "Energy", "Of all devices. Missing when one has no number.", decimals=6)
    mean_power_w: float | None = result("W", "Mean power")
    reason: str = result(label="Why there is no number", default="")
    advice: str = result(label="What to do", default="")


def compute_integral(inputs: IntegralInputs) -> IntegralOutputs:
    if inputs.to_s <= inputs.from_s:
        raise refuse("to_s", "The window ends before it begins.", "Give a time after from_s.")
    total = 0.0
    for name, t_s, power_w in _devices(inputs):
        reading = power_integral(
            _nanoseconds(name, t_s),
            (np.asarray(power_w) - inputs.offset_w) / inputs.gain * 1e3,
            round(inputs.from_s * 1e9),
            round(inputs.to_s * 1e9),
            window_ns=round(inputs.mean_ms * 1e6),
        )
        if reading.energy_j is None:
            return IntegralOutputs(None, None, reading.reason, REASONS[reading.reason])
        total += reading.energy_j
    return IntegralOutputs(total, total / (inputs.to_s - inputs.from_s))


def _devices(inputs: IntegralInputs) -> list[tuple[str, tuple[float, ...], tuple[float, ...]]]:
    devices = [("t_s", inputs.t_s, inputs.power_w), ("second_t_s", inputs.second_t_s, inputs.second_power_w)]
    for name, t_s, power_w in devices:
        if len(t_s) != len(power_w):
            raise refuse(name, f"{len(t_s)} times and {len(power_w)} readings.", "Give one reading for each time.")
    return [device for device in devices if device[1] or device[0] == "t_s"]


def _nanoseconds(name: str, t_s: tuple[float, ...]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    t_ns = np.rint(np.asarray(t_s) * 1e9).astype(np.int64)
    if (np.diff(t_ns) <= 0).any():
        raise refuse(name, "The times do not rise.", "Sort the readings by time, each time once.")
    return t_ns


INTEGRATE = Calculator(
    name="integrate",
    title="Energy from power readings",
    subject="Energy",
    summary="Joules under readings of power: trapezoids, edges interpolated, each device by itself, then added.",
    inputs=IntegralInputs,
    outputs=IntegralOutputs,
    compute=compute_integral,
    formula=("E = Σ_devices ∫ P dt", "P = (reading − offset) / gain"),
    source="The instrument's own rules: docs/power.md.",
    assumptions=("Readings must surround the window; more than 3 s without one inside it give no number.",),
)
