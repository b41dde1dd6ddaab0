"""Intel GPUs through the energy files that the i915 and xe drivers keep among the kernel's hardware monitors."""

import time
from dataclasses import dataclass
from pathlib import Path

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.polling import MeanPower
from runners.power.samples import Row
from runners.power.sources import sysfs

_DRIVERS = ("i915", "xe")
_PERIOD_MS = 100.0
_GAIN_ERROR = 0.05


@dataclass
class _Board:
    energy: Path
    limit: Path
    device: Device
    power: MeanPower


class XpuSource:
    """One counter a card: that of the card where there is one, else that of its package; tiles lie inside both."""

    name = "xpu"
    period_ms = _PERIOD_MS

    def __init__(self, hwmon: Path = sysfs.HWMON) -> None:
        self.notes: list[Note] = []
        self._boards = [board for path in sysfs.monitors(hwmon, _DRIVERS) if (board := self._open(path))]
        if not self._boards and not self.notes:
            text = (
                f"No energy counter of an Intel GPU under {hwmon}: it takes the driver i915 or xe of a recent kernel."
            )
            self.notes.append(Note("xpu_missing", text))

    def devices(self) -> list[Device]:
        return [board.device for board in self._boards]

    def read(self) -> list[Row]:
        return [row for board in self._boards if (row := _read(board))]

    def close(self) -> None:
        """Nothing is held open."""

    def _open(self, monitor: Path) -> _Board | None:
        energy = _counter(monitor)
        if energy is None:
            return None
        refused = sysfs.unreadable(energy)
        if refused:
            self.notes.append(Note("xpu_permission", refused))
            return None
        number = energy.name.removeprefix("energy").removesuffix("_input")
        return _Board(energy, monitor / f"power{number}_max", _device(monitor, energy), MeanPower())


def _counter(monitor: Path) -> Path | None:
    files = sorted(monitor.glob("energy*_input"))
    by_label = {sysfs.text(path.with_name(path.name.replace("_input", "_label"))): path for path in files}
    return by_label.get("card") or (files[0] if files else None)


def _device(monitor: Path, energy: Path) -> Device:
    place = (monitor / "device").resolve().name
    label = sysfs.text(energy.with_name(energy.name.replace("_input", "_label"))) or "card"
    return Device(
        id=f"xpu-{place if ':' in place else monitor.name}",
        name=f"Intel GPU {place}" if ":" in place else "Intel GPU",
        layer=Layer.ACCELERATOR,
        source="xpu",
        mark=Mark.MEASURED,
        update_ms=_PERIOD_MS,
        reading=f"{sysfs.text(monitor / 'name')} energy counter ({label})",
        gain_low=1 - _GAIN_ERROR,
        gain_high=1 + _GAIN_ERROR,
        gain_source=f"±{_GAIN_ERROR:.0%} is assumed for Intel's own figure",
    )


def _read(board: _Board) -> Row | None:
    t_ns = time.monotonic_ns()
    energy_uj, limit_uw = sysfs.number(board.energy), sysfs.number(board.limit)
    if energy_uj is None:
        return None
    return {
        "t_ns": t_ns,
        "device": board.device.id,
        "layer": board.device.layer.value,
        "power_mw": board.power.step_mw(t_ns, energy_uj / 1e3),
        "energy_mj": energy_uj / 1e3,
        "power_limit_mw": limit_uw / 1e3 if limit_uw else None,
    }
