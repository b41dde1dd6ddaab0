"""NVIDIA GPUs through NVML: the energy counter and, as its cross-check, power."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import pynvml

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.samples import Row
from runners.power.sources.nvml_facts import board_facts, on_module, period_of
from runners.power.sources.nvml_period import Periods, update_periods
from runners.power.sources.nvml_reads import (
    INSTANT,
    LOST,
    MEAN,
    Reads,
    ask,
    device_count,
    fast_values,
    probe,
    processes,
)
from runners.power.sources.nvml_sensors import Sensor, gain, sensor, sensor_notes
from runners.power.sources.nvml_visible import Identity, visible_boards

_SLOW_NS = 1_000_000_000  # temperature and the like are read once a second: the lightest set of reads
#: A little more than two reads an update, so that they drift through its beat: where it lies becomes known.
_READS_PER_UPDATE = 2.1
_SHORTEST_MS = 5.0

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
    """``own``: the compute processes that were there at the start, taken to be the server's."""

    handle: Any
    device: Device
    reads: Reads
    own: frozenset[int]
    slow_due_ns: int = 0
    lost: bool = False


class NvmlSource:
    """The boards that CUDA_VISIBLE_DEVICES names, or all. NVML does not survive a fork: a child opens its own.

    ``clock_ns`` is CLOCK_MONOTONIC.
    """

    name = "nvml"

    def __init__(
        self, environ: Mapping[str, str] = os.environ, clock_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.notes: list[Note] = []
        self._boards: list[_Board] = []
        self._clock_ns = clock_ns
        self._opened_by = 0
        try:
            pynvml.nvmlInit()
            self._opened_by = os.getpid()
            self._find(environ)
        except pynvml.NVMLError as error:
            self.notes.append(init_note(error))
        update_ms = min((board.device.update_ms for board in self._boards), default=100.0)
        self.period_ms = max(_SHORTEST_MS, update_ms / _READS_PER_UPDATE)

    def devices(self) -> list[Device]:
        return [board.device for board in self._boards]

    def read(self) -> list[Row]:
        if self._opened_by not in (0, os.getpid()):
            self._reopen()
        return [row for board in self._boards if not board.lost and (row := self._read(board))]

    def close(self) -> None:
        if self._opened_by == os.getpid():
            self._opened_by = 0
            pynvml.nvmlShutdown()

    def _reopen(self) -> None:
        pynvml.nvmlInit()
        self._opened_by = os.getpid()
        for board in self._boards:
            board.handle = pynvml.nvmlDeviceGetHandleByUUID(board.device.id)

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
        found = [board for one in selection.boards if (board := self._probed(handles[one.uuid], one))]
        periods = update_periods([partial(_watched, board) for board in found], self._clock_ns)
        for board, told in zip(found, periods, strict=True):
            self._add(board, told, board.identity.uuid in selection.shared)

    def _probed(self, handle: Any, identity: Identity) -> "_Probed | None":
        """None, with a note, for a board that cannot be used."""
        try:
            traits = sensor(ask(pynvml.nvmlDeviceGetArchitecture, handle) or 0, identity.name)
            return _Probed(handle, identity, traits, probe(handle))
        except pynvml.NVMLError as error:
            self.notes.append(Note("gpu_unusable", f"{identity.name} cannot be read ({error}): it is left out."))
            return None

    def _add(self, found: "_Probed", periods: Periods, shared: bool) -> None:
        name, traits, reads = found.identity.name, found.traits, found.reads
        try:
            facts = board_facts(found.handle, found.identity, traits, reads)
            own = processes(found.handle) or frozenset()
        except pynvml.NVMLError as error:
            self.notes.append(Note("gpu_unusable", f"{name} cannot be read ({error}): it is left out."))
            return
        self.notes += [note for note in facts.notes if not (shared and note.code == "mig")]
        update_ms, notes = period_of(name, traits, periods)
        told = facts.told | {"update_ms": dict(periods), "processes": len(own) if reads.processes else None}
        device = _device(found, update_ms, shared or facts.shared, told)
        if not device.counter and device.power_column is None:
            text = "gives neither an energy counter nor a power reading (usual for vGPU guests): it is not measured."
            self.notes.append(Note("no_power_reading", f"{name} {text}"))
            return
        if on_module(name, reads):
            text = "is on a Grace module, and its counter may hold CPU and memory too: power of the GPU is integrated."
            self.notes.append(Note("grace_module", f"{name} {text}"))
        elif not device.counter:
            self.notes.append(Note("no_counter", f"{name} has no energy counter of its own: its power is integrated."))
        if len(own) > 1:
            text = (
                f"{len(own)} compute processes on {name} from the start{_names(own)} are all taken to be the server's. "
                "If some serve others, say so: --gpu-shared, or GPU shared of the deployment."
            )
            self.notes.append(Note("several_processes", text))
        self.notes += notes + sensor_notes(name, traits)
        self._boards.append(_Board(found.handle, device, reads, own))

    def _read(self, board: _Board) -> Row | None:
        device = board.device
        begun_ns = self._clock_ns()
        row: Row = {"device": device.id, "layer": device.layer.value}
        slow = begun_ns >= board.slow_due_ns
        try:
            row |= fast_values(board.handle, board.reads, slow=slow)
            if slow:
                board.slow_due_ns = begun_ns + _SLOW_NS
                row |= _others(board) | {"listed_gpus": device_count()}
        except pynvml.NVMLError as error:
            if error.value not in LOST:
                self._note_once("read_error", f"{device.name}: a reading failed ({error}); such readings are left out.")
                return None
            board.lost = True
            row["reason"] = "gpu_lost"
            self.notes.append(
                Note("gpu_lost", f"{device.name} ({device.id}) was lost: {error}. Its series ends there.")
            )
        row["t_ns"] = (begun_ns + self._clock_ns()) // 2
        return row

    def _note_once(self, code: str, text: str) -> None:
        if Note(code, text) not in self.notes:
            self.notes.append(Note(code, text))


@dataclass(frozen=True)
class _Probed:
    handle: Any
    identity: Identity
    traits: Sensor
    reads: Reads


def _watched(found: _Probed) -> Row:
    """Counter and power for the probe of their period; what fails meanwhile shows when the board is read."""
    try:
        return fast_values(found.handle, found.reads)
    except pynvml.NVMLError:
        return {}


def _others(board: _Board) -> Row:
    """How many compute processes came after the start."""
    found = processes(board.handle) if board.reads.processes else None
    return {} if found is None else {"other_processes": len(found - board.own)}


def init_note(error: Any) -> Note:
    """Words for an NVMLError of nvmlInit, with what to do."""
    code, text = _INIT_NOTES.get(error.value, ("nvml_error", f"NVML failed to start: {error}. Does nvidia-smi work?"))
    return Note(code, text)


def _identity(index: int, handle: Any) -> Identity:
    pci = ask(pynvml.nvmlDeviceGetPciInfo, handle)
    bus_id = str(pci.busId) if pci is not None else f"{index:08X}"
    return Identity(index, pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), bus_id)


def _mig_parent(mig_uuid: str) -> str | None:
    try:
        instance = pynvml.nvmlDeviceGetHandleByUUID(mig_uuid)
        board = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(instance)
        return str(pynvml.nvmlDeviceGetUUID(board))
    except pynvml.NVMLError:
        return None


def _names(pids: frozenset[int]) -> str:
    """What they are called, where that may be read."""
    told = {ask(pynvml.nvmlSystemGetProcessName, pid) for pid in sorted(pids)} - {None, ""}
    names = sorted({PurePath(str(name)).name for name in told})
    return f" ({', '.join(names)})" if names else ""


def _device(found: _Probed, update_ms: float, shared: bool, told: dict[str, Any]) -> Device:
    identity = found.identity
    column, window_ms, power_words = _power_series(found.traits, found.reads)
    counter = found.reads.counter and not on_module(identity.name, found.reads)
    gain_low, gain_high, gain_source = gain(identity.name)
    return Device(
        id=identity.uuid,
        name=identity.name,
        layer=Layer.ACCELERATOR,
        source="nvml",
        mark=Mark.MEASURED,
        update_ms=update_ms,
        reading=f"NVML energy counter, checked by {power_words}" if counter else f"NVML {power_words}, integrated",
        gain_low=gain_low,
        gain_high=gain_high,
        gain_source=gain_source,
        counter=counter,
        power_column=column,
        power_window_ms=window_ms,
        shared=shared,
        facts=told,
    )


def _power_series(traits: Sensor, reads: Reads) -> tuple[str | None, float, str]:
    """Column to integrate, the time that each of its values is the mean of, and words for it."""
    windows = {"power_mw": (MEAN, traits.mean_ms), "power_instant_mw": (INSTANT, traits.instant_ms)}
    for column in sorted(windows, key=lambda name: name != traits.integrate):
        field_id, window_ms = windows[column]
        if field_id in reads.fields:
            return column, window_ms, f"power field {field_id} (mean over {window_ms:.0f} ms)"
    if reads.power_call:
        return "power_mw", traits.legacy_ms, f"nvmlDeviceGetPowerUsage (mean over {traits.legacy_ms:.0f} ms)"
    return None, 0.0, "no power reading"
