"""Modelled GPU power: idle watts plus what utilisation adds, where a GPU tells its use but not its power."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pynvml

from runners.meters import GpuModel
from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.samples import Row
from runners.power.sources import sysfs
from runners.power.sources.nvml_visible import Identity, visible_boards

_PERIOD_MS = 100.0
UNCERTAINTY = 0.5
_DRM = Path("/sys/class/drm")

#: Percent of time in use; None when it is not told.
_Use = Callable[[], float | None]


class GpuModelSource:
    """``idle_w + (tdp_w - idle_w) × utilisation`` for each GPU, by NVML's utilisation or amdgpu's."""

    name = "gpu-model"
    period_ms = _PERIOD_MS

    def __init__(self, meter: GpuModel, environ: Mapping[str, str] = os.environ, drm: Path = _DRM) -> None:
        self.notes: list[Note] = []
        self._meter = meter
        self._open = False
        self._gpus = self._of_nvml(environ) or self._of_amdgpu(drm)
        self._energy_mj = dict.fromkeys((device.id for device, _, _ in self._gpus), 0.0)
        self._last_ns = time.monotonic_ns()
        if self._gpus:
            text = (
                "GPU power is modelled from its utilisation, not measured, ±50 %: utilisation says that a kernel ran, "
                "not how hard it worked."
            )
            self.notes.append(Note("gpu_modelled", text))
        elif not self.notes:
            text = f"No GPU tells its utilisation, neither by NVML nor under {drm}: nothing to model from."
            self.notes.append(Note("gpu_model_missing", text))

    def devices(self) -> list[Device]:
        return [device for device, _, _ in self._gpus]

    def read(self) -> list[Row]:
        t_ns, last_ns = time.monotonic_ns(), self._last_ns
        self._last_ns = t_ns
        rows: list[Row] = []
        for device, tdp_w, use in self._gpus:
            percent = use()
            if percent is None:
                continue
            power_mw = 1e3 * (self._meter.idle_w + (tdp_w - self._meter.idle_w) * min(100.0, percent) / 100)
            self._energy_mj[device.id] += power_mw * (t_ns - last_ns) / 1e9
            row: Row = {"t_ns": t_ns, "device": device.id, "layer": Layer.ACCELERATOR.value, "power_mw": power_mw}
            rows.append(row | {"energy_mj": self._energy_mj[device.id], "utilisation_pct": percent})
        return rows

    def close(self) -> None:
        if self._open:
            self._open = False
            pynvml.nvmlShutdown()

    def _of_nvml(self, environ: Mapping[str, str]) -> list[tuple[Device, float, _Use]]:
        try:
            pynvml.nvmlInit()
            self._open = True
            handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
            boards = [
                Identity(index, pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle), f"{index:08X}")
                for index, handle in enumerate(handles)
            ]
        except pynvml.NVMLError:
            return []
        visible, order = environ.get("CUDA_VISIBLE_DEVICES"), environ.get("CUDA_DEVICE_ORDER")
        chosen = visible_boards(boards, visible, order, lambda _: None)
        self.notes += chosen.notes
        made = [self._board(board, handles[board.index]) for board in chosen.boards]
        return [one for one in made if one is not None]

    def _board(self, board: Identity, handle: object) -> tuple[Device, float, _Use] | None:
        def use() -> float | None:
            try:
                return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
            except pynvml.NVMLError:
                return None

        return self._gpu(board.uuid, board.name, self._meter.tdp_w or _default_limit_w(handle), use)

    def _of_amdgpu(self, drm: Path) -> list[tuple[Device, float, _Use]]:
        made: list[tuple[Device, float, _Use] | None] = []
        for busy in sorted(drm.glob("card[0-9]*/device/gpu_busy_percent")):
            card = busy.parents[1].name
            made.append(self._gpu(card, f"AMD GPU {card}", self._meter.tdp_w, lambda busy=busy: sysfs.number(busy)))  # type: ignore[misc]
        return [one for one in made if one is not None]

    def _gpu(self, key: str, name: str, tdp_w: float | None, use: _Use) -> tuple[Device, float, _Use] | None:
        if tdp_w is None:
            text = f"{name}: its power at full use is not known: give it, as in gpu-model:300."
            self.notes.append(Note("gpu_model_tdp", text))
            return None
        if use() is None:
            self.notes.append(Note("gpu_model_use", f"{name} does not tell its utilisation: nothing to model from."))
            return None
        return _device(key, name, tdp_w), tdp_w, use


def _default_limit_w(handle: object) -> float | None:
    try:
        return float(pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle)) / 1e3
    except pynvml.NVMLError:
        return None


def _device(key: str, name: str, tdp_w: float) -> Device:
    return Device(
        id=key,
        name=name,
        layer=Layer.ACCELERATOR,
        source="gpu-model",
        mark=Mark.MODELLED,
        update_ms=_PERIOD_MS,
        reading=f"GPU utilisation × {tdp_w:g} W",
        gain_low=1 - UNCERTAINTY,
        gain_high=1 + UNCERTAINTY,
        gain_source="±50 % is assumed for a model of this kind",
    )
