"""What one NVIDIA board answers: found out once by asking for everything, then read with as few calls as possible."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, TypeVar

import pynvml

from runners.power.samples import Row

T = TypeVar("T")

ENERGY, MEAN, INSTANT = 83, 185, 186  # NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, _POWER_AVERAGE, _POWER_INSTANT
POWER_THROTTLED, THERMAL_THROTTLED = 74, 75  # NVML_FI_DEV_PERF_POLICY_POWER, _THERMAL: nanoseconds
SCOPES = {0: "gpu", 1: "module", 2: "memory"}  # NVML_POWER_SCOPE_*
_GPU_SCOPE, _MODULE_SCOPE = 0, 1
#: Field ids (NVML_FI_PWR_SMOOTHING_*) of the state of power smoothing, and what it is called in a board's facts.
_SMOOTHING = {
    pynvml.NVML_FI_PWR_SMOOTHING_ENABLED: "enabled",
    pynvml.NVML_FI_PWR_SMOOTHING_ACTIVE_PRESET_PROFILE: "profile",
    pynvml.NVML_FI_PWR_SMOOTHING_PROFILE_PERCENT_TMP_FLOOR: "floor_pct",
    pynvml.NVML_FI_PWR_SMOOTHING_APPLIED_TMP_FLOOR: "applied_floor",
}
#: Scopes whose mean power differs by more than this tell of different things.
_SAME_POWER = 0.02
#: Column of samples, and what turns NVML's unit into that of the column.
_COLUMNS = {
    ENERGY: ("energy_mj", 1.0),
    MEAN: ("power_mw", 1.0),
    INSTANT: ("power_instant_mw", 1.0),
    POWER_THROTTLED: ("power_throttled_ms", 1e-6),
    THERMAL_THROTTLED: ("thermal_throttled_ms", 1e-6),
}
_FAST, _SLOW = (ENERGY, MEAN, INSTANT), (POWER_THROTTLED, THERMAL_THROTTLED)
#: nvmlFieldValue_t, and by its valueType the member of its union: double, unsigned int, long, long long, signed ones.
_FIELD_VALUE = Struct("IIqqIi8s")
_UNION = tuple(Struct(member) for member in ("d", "I", "L", "Q", "q", "i", "H"))
#: Errors after which a board gives nothing more.
LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
_NOT_YET = (pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_NOT_READY)


@dataclass
class Reads:
    """Which calls this board answers. ``fields`` go in one call, so that they share a stamp; ``slow_fields`` go with
    them about once a second, and so do the calls of ``slow``, by column. ``scopes``: of which the mean power is told;
    ``module``: that of the module is another than that of the GPU.
    ``denied``: names of what this user may not read.
    """

    fields: tuple[int, ...] = ()
    slow_fields: tuple[int, ...] = ()
    scopes: tuple[int, ...] = ()
    module: bool = False
    energy_call: bool = False
    power_call: bool = False
    slow: dict[str, Callable[[Any], float]] = field(default_factory=dict)
    processes: bool = False
    denied: list[str] = field(default_factory=list)

    @property
    def counter(self) -> bool:
        return ENERGY in self.fields or self.energy_call


_CALLS: dict[str, Callable[[Any], float]] = {
    "temperature_c": lambda board: pynvml.nvmlDeviceGetTemperature(board, pynvml.NVML_TEMPERATURE_GPU),
    "utilisation_pct": lambda board: pynvml.nvmlDeviceGetUtilizationRates(board).gpu,
    "clock_mhz": lambda board: pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda board: pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_MEM),
    "power_limit_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit,
    "throttle_reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons,
}


def ask(function: Callable[..., T], *arguments: Any, denied: list[str] | None = None, name: str = "") -> T | None:
    """The answer, or None where this board has none: each field fails alone. Raises NVMLError for a lost board.

    What this user may not read is put down in ``denied`` under its ``name``.
    """
    try:
        return function(*arguments)
    except pynvml.NVMLError as error:
        if error.value in LOST:
            raise
        if denied is not None and error.value == pynvml.NVML_ERROR_NO_PERMISSION:
            denied.append(name)
        return None


def probe(handle: Any) -> Reads:
    """Asks once for everything. Raises NVMLError when the board is lost."""
    reads = Reads()
    denied = reads.denied
    reads.fields, reads.slow_fields = _answered(handle, _FAST, denied), _answered(handle, _SLOW, [])
    scopes = _scope_powers(handle)
    reads.scopes, reads.module = tuple(scopes), _differ(scopes)
    if ENERGY not in reads.fields:
        energy = ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle, denied=denied, name="energy_mj")
        reads.energy_call = energy is not None
    if MEAN not in reads.fields and INSTANT not in reads.fields:
        reads.power_call = ask(pynvml.nvmlDeviceGetPowerUsage, handle, denied=denied, name="power_mw") is not None
    reads.slow = {
        column: read for column, read in _CALLS.items() if ask(read, handle, denied=denied, name=column) is not None
    }
    reads.processes = processes(handle, denied) is not None
    return reads


def _answers(handle: Any, asked: list[tuple[int, int]]) -> Iterator[tuple[int, int, int, int, int, int, bytes]]:
    """(field, scope, stamp in us, latency, type, status, value) of each (field, scope) that is asked for in one call.

    Unpacked at once: looking at fields of the binding's structures one by one is half of what sampling costs.
    """
    return _FIELD_VALUE.iter_unpack(pynvml.nvmlDeviceGetFieldValues(handle, asked))


def _answered(handle: Any, fields: tuple[int, ...], denied: list[str]) -> tuple[int, ...]:
    items = ask(_answers, handle, [(field_id, _GPU_SCOPE) for field_id in fields]) or ()
    status_of = {field_id: status for field_id, _, _, _, _, status, _ in items}
    denied += [
        _COLUMNS[field_id][0] for field_id, status in status_of.items() if status == pynvml.NVML_ERROR_NO_PERMISSION
    ]
    return tuple(field_id for field_id, status in status_of.items() if status in (pynvml.NVML_SUCCESS, *_NOT_YET))


def _scope_powers(handle: Any) -> dict[int, float | None]:
    """Mean power (mW) of each scope that is told of."""
    items = ask(_answers, handle, [(MEAN, scope) for scope in SCOPES]) or ()
    return {
        scope: _number(kind, status, value)
        for _, scope, _, _, kind, status, value in items
        if status == pynvml.NVML_SUCCESS
    }


def _differ(scopes: dict[int, float | None]) -> bool:
    gpu_mw, module_mw = scopes.get(_GPU_SCOPE), scopes.get(_MODULE_SCOPE)
    return gpu_mw is not None and module_mw is not None and module_mw > (1 + _SAME_POWER) * gpu_mw


def power_smoothing(handle: Any) -> dict[str, float] | None:
    """The state of power smoothing by name; None for a board that knows none. ``floor_pct`` is of the power limit."""
    items = ask(_answers, handle, [(field_id, _GPU_SCOPE) for field_id in _SMOOTHING]) or ()
    known = {field_id: _number(kind, status, value) for field_id, _, _, _, kind, status, value in items}
    told = {_SMOOTHING[field_id]: value for field_id, value in known.items() if value is not None}
    return told if "enabled" in told else None


def device_count() -> int | None:
    """How many GPUs the driver lists now."""
    return ask(pynvml.nvmlDeviceGetCount)


def processes(handle: Any, denied: list[str] | None = None) -> frozenset[int] | None:
    """Ids of the compute processes on the board, as the host counts them; None where they are not told."""
    found = ask(pynvml.nvmlDeviceGetComputeRunningProcesses, handle, denied=denied, name="processes")
    return None if found is None else frozenset(process.pid for process in found)


def fast_values(handle: Any, reads: Reads, *, slow: bool = False) -> Row:
    """Counter and power, and with ``slow`` what is read once a second. Raises NVMLError when the board is lost or a
    whole call fails.
    """
    row: Row = {}
    fields = reads.fields + reads.slow_fields if slow else reads.fields
    if fields:
        asked = [(field_id, _GPU_SCOPE) for field_id in fields]
        for field_id, _, stamp_us, _, kind, status, raw in _answers(handle, asked):
            column, scale = _COLUMNS[field_id]
            value = _number(kind, status, raw)
            row[column] = None if value is None else value * scale
            row["sensor_t_us"] = stamp_us or row.get("sensor_t_us")
    if reads.energy_call:
        row["energy_mj"] = float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    if reads.power_call:
        row["power_mw"] = float(pynvml.nvmlDeviceGetPowerUsage(handle))
    if slow:
        row |= {column: ask(read, handle) for column, read in reads.slow.items()}
    return row


def _number(kind: int, status: int, raw: bytes) -> float | None:
    """The member of the union that the answer's own type names; the rest of the union may hold anything."""
    if status in LOST:
        raise pynvml.NVMLError(status)
    if status != pynvml.NVML_SUCCESS or kind >= len(_UNION):
        return None
    return float(_UNION[kind].unpack_from(raw)[0])
