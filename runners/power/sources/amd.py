"""AMD GPUs of this machine through amdsmi: the energy accumulator and, as its cross-check, socket power."""

import importlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.samples import Row

_PERIOD_MS = 100.0
_GAIN_ERROR = 0.05
_SLOW_NS = 1_000_000_000
#: Below this a power cap was told in watts, above in microwatts: versions of amdsmi differ.
_MOST_W = 100_000.0
_POWERS = ("current_socket_power", "socket_power", "average_socket_power")
_VISIBLE = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")


@dataclass
class _Board:
    handle: Any
    device: Device
    stamp_ns: int = 0
    slow_due_ns: int = 0


class AmdSource:
    """The GPUs that ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES name by index, or all."""

    name = "amd"
    period_ms = _PERIOD_MS

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.notes: list[Note] = []
        self._boards: list[_Board] = []
        self._smi: Any = None
        try:
            self._smi = importlib.import_module("amdsmi")
            self._smi.amdsmi_init()
        except (ImportError, OSError, KeyError) as error:
            self._smi = None
            text = (
                f"amdsmi cannot be imported ({error}), so no AMD GPU is measured. With one in this machine: install "
                "ROCm's amd-smi-lib, then pip install /opt/rocm/share/amd_smi in this environment."
            )
            self.notes.append(Note("amd_no_library", text))
            return
        except self._smi.AmdSmiException as error:
            text = (
                f"amdsmi does not start ({error}): load the driver (modprobe amdgpu), and let this user read /dev/kfd "
            )
            self.notes.append(Note("amd_no_driver", text + "and /dev/dri/render* (often the groups render and video)."))
            self._smi = None
            return
        self._find(environ)

    def devices(self) -> list[Device]:
        return [board.device for board in self._boards]

    def read(self) -> list[Row]:
        return [row for board in self._boards if (row := self._read(board))]

    def close(self) -> None:
        if self._smi is not None:
            self._ask(self._smi.amdsmi_shut_down)

    def _find(self, environ: Mapping[str, str]) -> None:
        handles = self._ask(self._smi.amdsmi_get_processor_handles) or []
        if not handles:
            self.notes.append(Note("amd_no_gpu", "The AMD driver is there, but it lists no GPU."))
        for handle in self._visible(list(handles), environ):
            device = self._device(handle)
            if device is None:
                text = "An AMD GPU gives neither energy nor power (usual for virtual machines): it is not measured."
                self._note_once("gpu_unusable", text)
            elif all(board.device.id != device.id for board in self._boards):
                self._boards.append(_Board(handle, device))

    def _visible(self, handles: list[Any], environ: Mapping[str, str]) -> list[Any]:
        name = next((name for name in _VISIBLE if environ.get(name, "").strip()), "")
        if not name:
            return handles
        entries = [entry.strip() for entry in environ[name].split(",")]
        if not all(entry.isdigit() and int(entry) < len(handles) for entry in entries):
            text = f"{name}={environ[name]} does not name GPUs by index: all GPUs of the machine are in the figure."
            self.notes.append(Note("amd_visible_devices", text))
            return handles
        chosen = sorted({int(entry) for entry in entries})
        if len(chosen) < len(handles):
            text = f"{len(handles) - len(chosen)} of {len(handles)} GPUs are outside {name} and are not in the figure."
            self.notes.append(Note("bystanders", text))
        return [handles[index] for index in chosen]

    def _device(self, handle: Any) -> Device | None:
        counter, power = self._energy(handle) is not None, self._power_mw(handle) is not None
        if not counter and not power:
            return None
        asic = self._ask(self._smi.amdsmi_get_gpu_asic_info, handle) or {}
        uuid = self._ask(self._smi.amdsmi_get_gpu_device_uuid, handle)
        words = "amdsmi energy accumulator" if counter else ""
        checked = (
            ", checked by socket power" if counter and power else "amdsmi socket power, integrated" if power else ""
        )
        return Device(
            id=str(uuid or self._ask(self._smi.amdsmi_get_gpu_device_bdf, handle) or f"amd-{len(self._boards)}"),
            name=str(asic.get("market_name") or "AMD GPU"),
            layer=Layer.ACCELERATOR,
            source="amd",
            mark=Mark.MEASURED,
            update_ms=_PERIOD_MS,
            reading=words + checked,
            gain_low=1 - _GAIN_ERROR,
            gain_high=1 + _GAIN_ERROR,
            gain_source=f"±{_GAIN_ERROR:.0%} is assumed for AMD's own figure",
            counter=counter,
            power_column="power_mw" if power else None,
        )

    def _read(self, board: _Board) -> Row | None:
        begun_ns = time.monotonic_ns()
        found = self._energy(board.handle) if board.device.counter else None
        row: Row = {"device": board.device.id, "layer": board.device.layer.value}
        if found is not None and found[1] > board.stamp_ns:  # a stamp that stands still repeats the reading before
            row |= {"energy_mj": found[0], "sensor_t_us": found[1] // 1000}
            board.stamp_ns = found[1]
        row["power_mw"] = self._power_mw(board.handle)
        if begun_ns >= board.slow_due_ns:
            board.slow_due_ns = begun_ns + _SLOW_NS
            row |= self._slow(board.handle)
        if row.get("energy_mj") is None and row["power_mw"] is None:
            self._note_once("read_error", f"{board.device.name}: a reading failed; such readings are left out.")
            return None
        row["t_ns"] = (begun_ns + time.monotonic_ns()) // 2
        return row

    def _energy(self, handle: Any) -> tuple[float, int] | None:
        """(mJ, the driver's stamp in ns). The accumulator counts in steps of ``counter_resolution`` µJ."""
        told = self._ask(self._smi.amdsmi_get_energy_count, handle) or {}
        steps = _number(told.get("energy_accumulator", told.get("power")))  # "power" before ROCm 6.1
        resolution_uj, stamp_ns = _number(told.get("counter_resolution")), _number(told.get("timestamp"))
        if not steps or not resolution_uj or stamp_ns is None:
            return None
        return steps * resolution_uj / 1e3, int(stamp_ns)

    def _power_mw(self, handle: Any) -> float | None:
        told = self._ask(self._smi.amdsmi_get_power_info, handle) or {}
        watts = next((found for name in _POWERS if (found := _number(told.get(name))) is not None), None)
        return None if watts is None else watts * 1e3

    def _slow(self, handle: Any) -> Row:
        cap = _number((self._ask(self._smi.amdsmi_get_power_cap_info, handle) or {}).get("power_cap"))
        activity = _number((self._ask(self._smi.amdsmi_get_gpu_activity, handle) or {}).get("gfx_activity"))
        limit_mw = None if not cap else cap * 1e3 if cap < _MOST_W else cap / 1e3
        return {"power_limit_mw": limit_mw, "utilisation_pct": activity}

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """The answer, or None where this GPU has none: each fact fails alone."""
        try:
            return function(*arguments)
        except self._smi.AmdSmiException:
            return None

    def _note_once(self, code: str, text: str) -> None:
        if Note(code, text) not in self.notes:
            self.notes.append(Note(code, text))


def _number(value: Any) -> float | None:
    """What amdsmi has no value for it calls "N/A"."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
