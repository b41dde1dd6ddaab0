"""NVIDIA GPUs through NVML: the energy counter and, as its cross-check, power."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pynvml

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.samples import Row
from runners.power.sources.nvml_sensors import Sensor, gain, sensor, sensor_notes
from runners.power.sources.nvml_visible import Identity, visible_boards

T = TypeVar("T")

_ENERGY, _MEAN, _INSTANT = 83, 185, 186  # NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION, _POWER_AVERAGE, _POWER_INSTANT
_GPU_SCOPE = 0
_COLUMNS = {_ENERGY: "energy_mj", _MEAN: "power_mw", _INSTANT: "power_instant_mw"}
_UNION_MEMBER = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
_LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
_NOT_YET = (pynvml.NVML_ERROR_NO_DATA, pynvml.NVML_ERROR_NOT_READY)
_SLOW_NS = 1_000_000_000  # temperature and the like are read once a second: the lightest set of reads

_INIT_NOTES: dict[int, tuple[str, str]] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: (
        "nvml_no_library",
        "libnvidia-ml.so.1 was not found, so no NVIDIA GPU is measured. With a GPU in this machine: install its "
        "driver; in a container: start it with --gpus all and NVIDIA_DRIVER_CAPABILITIES=utility.",
    ),
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: (
        "nvml_no_driver",
        "The NVIDIA driver is not loaded: run nvidia-smi, and load the kernel module (modprobe nvidia) or reboot.",
    ),
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "nvml_driver_mismatch",
        "The NVIDIA library and the loaded kernel module differ in version, usual after an upgrade: reboot, or unload "
        "and load the kernel module.",
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: (
        "nvml_no_permission",
        "This user may not open the GPUs: give it read and write access to /dev/nvidia* (often the group video).",
    ),
}


@dataclass
class _Board:
    handle: Any
    device: Device
    reads: "_Reads"
    slow_due_ns: int = 0
    lost: bool = False


@dataclass
class _Reads:
    """Which calls this board answers. ``fields`` go in one call, so that they share a stamp."""

    fields: tuple[int, ...] = ()
    energy_call: bool = False
    power_call: bool = False
    slow: dict[str, Callable[[Any], float]] = field(default_factory=dict)

    @property
    def counter(self) -> bool:
        return _ENERGY in self.fields or self.energy_call


class NvmlSource:
    """The boards that CUDA_VISIBLE_DEVICES names, or all. NVML is initialised here: a fork must open its own."""

    name = "nvml"

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.notes: list[Note] = []
        self._boards: list[_Board] = []
        self._open = False
        try:
            pynvml.nvmlInit()
            self._open = True
            self._find(environ)
        except pynvml.NVMLError as error:
            self.notes.append(init_note(error))
        self.period_ms = min((board.device.update_ms for board in self._boards), default=100.0) / 2

    def devices(self) -> list[Device]:
        return [board.device for board in self._boards]

    def read(self) -> list[Row]:
        return [row for board in self._boards if not board.lost and (row := self._read(board))]

    def close(self) -> None:
        if self._open:
            self._open = False
            pynvml.nvmlShutdown()

    def _find(self, environ: Mapping[str, str]) -> None:
        handles: dict[str, Any] = {}
        identities: list[Identity] = []
        count = pynvml.nvmlDeviceGetCount()
        if count == 0:
            self.notes.append(Note("nvml_no_gpu", "The NVIDIA driver is there, but it lists no GPU."))
        for index in range(count):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                identity = _identity(index, handle)
            except pynvml.NVMLError as error:
                self.notes.append(Note("gpu_unusable", f"GPU {index} cannot be opened ({error}): it is left out."))
                continue
            handles[identity.uuid] = handle
            identities.append(identity)
        visible, order = environ.get("CUDA_VISIBLE_DEVICES"), environ.get("CUDA_DEVICE_ORDER")
        selection = visible_boards(identities, visible, order, _mig_parent)
        self.notes += selection.notes
        for identity in selection.boards:
            self._add(handles[identity.uuid], identity, identity.uuid in selection.shared)

    def _add(self, handle: Any, identity: Identity, shared: bool) -> None:
        try:
            traits = sensor(_ask(pynvml.nvmlDeviceGetArchitecture, handle) or 0, identity.name)
            reads = _probe(handle)
        except pynvml.NVMLError as error:
            self.notes.append(Note("gpu_unusable", f"{identity.name} cannot be read ({error}): it is left out."))
            return
        device = _device(identity, traits, reads, shared)
        if not device.counter and device.power_column is None:
            text = "gives neither an energy counter nor a power reading (usual for vGPU guests): it is not measured."
            self.notes.append(Note("no_power_reading", f"{identity.name} {text}"))
            return
        if not device.counter:
            text = f"{identity.name} has no energy counter of its own: its power is integrated."
            self.notes.append(Note("no_counter", text))
        self.notes += sensor_notes(identity.name, traits)
        self._boards.append(_Board(handle, device, reads))

    def _read(self, board: _Board) -> Row | None:
        device = board.device
        begun_ns = time.monotonic_ns()
        row: Row = {"device": device.id, "layer": device.layer.value}
        try:
            row |= _values(board)
            if begun_ns >= board.slow_due_ns:
                board.slow_due_ns = begun_ns + _SLOW_NS
                row |= {column: _ask(read, board.handle) for column, read in board.reads.slow.items()}
        except pynvml.NVMLError as error:
            if error.value not in _LOST:
                self._note_once("read_error", f"{device.name}: a reading failed ({error}); such readings are left out.")
                return None
            board.lost = True
            row["reason"] = "gpu_lost"
            self.notes.append(
                Note("gpu_lost", f"{device.name} ({device.id}) was lost: {error}. Its series ends there.")
            )
        row["t_ns"] = (begun_ns + time.monotonic_ns()) // 2
        return row

    def _note_once(self, code: str, text: str) -> None:
        if Note(code, text) not in self.notes:
            self.notes.append(Note(code, text))


def init_note(error: Any) -> Note:
    """Words for an NVMLError of nvmlInit, with what to do."""
    code, text = _INIT_NOTES.get(error.value, ("nvml_error", f"NVML failed to start: {error}. Does nvidia-smi work?"))
    return Note(code, text)


def _ask(function: Callable[[Any], T], handle: Any) -> T | None:
    """The answer, or None where this board has none: each field fails alone. Raises NVMLError for a lost board."""
    try:
        return function(handle)
    except pynvml.NVMLError as error:
        if error.value in _LOST:
            raise
        return None


def _identity(index: int, handle: Any) -> Identity:
    pci = _ask(pynvml.nvmlDeviceGetPciInfo, handle)
    bus_id = str(pci.busId) if pci is not None else f"{index:08X}"
    return Identity(index, pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), bus_id)


def _mig_parent(mig_uuid: str) -> str | None:
    try:
        instance = pynvml.nvmlDeviceGetHandleByUUID(mig_uuid)
        board = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
        return str(pynvml.nvmlDeviceGetUUID(board))
    except pynvml.NVMLError:
        return None


def _probe(handle: Any) -> _Reads:
    """Asks once for everything. Raises NVMLError when the board is lost."""
    reads = _Reads()
    wanted = [(field_id, _GPU_SCOPE) for field_id in _COLUMNS]
    items = _ask(lambda board: pynvml.nvmlDeviceGetFieldValues(board, wanted), handle) or ()
    reads.fields = tuple(item.fieldId for item in items if item.nvmlReturn in (pynvml.NVML_SUCCESS, *_NOT_YET))
    if _ENERGY not in reads.fields:
        reads.energy_call = _ask(pynvml.nvmlDeviceGetTotalEnergyConsumption, handle) is not None
    if _MEAN not in reads.fields and _INSTANT not in reads.fields:
        reads.power_call = _ask(pynvml.nvmlDeviceGetPowerUsage, handle) is not None
    slow: dict[str, Callable[[Any], float]] = {
        "temperature_c": lambda board: pynvml.nvmlDeviceGetTemperature(board, pynvml.NVML_TEMPERATURE_GPU),
        "utilisation_pct": lambda board: pynvml.nvmlDeviceGetUtilizationRates(board).gpu,
        "clock_mhz": lambda board: pynvml.nvmlDeviceGetClockInfo(board, pynvml.NVML_CLOCK_SM),
        "power_limit_mw": pynvml.nvmlDeviceGetEnforcedPowerLimit,
    }
    reads.slow = {column: read for column, read in slow.items() if _ask(read, handle) is not None}
    return reads


def _device(identity: Identity, traits: Sensor, reads: _Reads, shared: bool) -> Device:
    column, window_ms, power_words = _power_series(traits, reads)
    # On GH200 the counter is that of the whole module, CPU and memory included.
    counter = reads.counter and "GH200" not in identity.name
    gain_low, gain_high, gain_source = gain(identity.name)
    return Device(
        id=identity.uuid,
        name=identity.name,
        layer=Layer.ACCELERATOR,
        source="nvml",
        mark=Mark.MEASURED,
        update_ms=traits.update_ms,
        reading=f"NVML energy counter, checked by {power_words}" if counter else f"NVML {power_words}, integrated",
        gain_low=gain_low,
        gain_high=gain_high,
        gain_source=gain_source,
        counter=counter,
        power_column=column,
        power_window_ms=window_ms,
        shared=shared,
    )


def _power_series(traits: Sensor, reads: _Reads) -> tuple[str | None, float, str]:
    """Column to integrate, the time that each of its values is the mean of, and words for it."""
    windows = {"power_mw": (_MEAN, traits.mean_ms), "power_instant_mw": (_INSTANT, traits.instant_ms)}
    for column in sorted(windows, key=lambda name: name != traits.integrate):
        field_id, window_ms = windows[column]
        if field_id in reads.fields:
            return column, window_ms, f"power field {field_id} (mean over {window_ms:.0f} ms)"
    if reads.power_call:
        return "power_mw", traits.legacy_ms, f"nvmlDeviceGetPowerUsage (mean over {traits.legacy_ms:.0f} ms)"
    return None, 0.0, "no power reading"


def _values(board: _Board) -> Row:
    """What changes fast. Raises NVMLError when the board is lost or a whole call fails."""
    row: Row = {}
    if board.reads.fields:
        wanted = [(field_id, _GPU_SCOPE) for field_id in board.reads.fields]
        for item in pynvml.nvmlDeviceGetFieldValues(board.handle, wanted):
            row[_COLUMNS[item.fieldId]] = _number(item)
            row["sensor_t_us"] = item.timestamp or row.get("sensor_t_us")
    if board.reads.energy_call:
        row["energy_mj"] = float(pynvml.nvmlDeviceGetTotalEnergyConsumption(board.handle))
    if board.reads.power_call:
        row["power_mw"] = float(pynvml.nvmlDeviceGetPowerUsage(board.handle))
    return row


def _number(item: Any) -> float | None:
    """The member of the union that the item's own type names; the rest of the union may hold anything."""
    if item.nvmlReturn in _LOST:
        raise pynvml.NVMLError(item.nvmlReturn)
    if item.nvmlReturn != pynvml.NVML_SUCCESS or item.valueType >= len(_UNION_MEMBER):
        return None
    return float(getattr(item.value, _UNION_MEMBER[item.valueType]))
