"""ACPI power meters among the kernel's hardware monitors: the sockets of NVIDIA Grace, or a whole server.

Grace shows several meters a socket, by their label: "Grace Power Socket 0" is the CPU side whole, with its memory and
SysIO; "CPU Power Socket 0" is one rail of it, about half; "Module Power Socket 0" holds the GPU of the module too. A
meter without a label is taken for that of the whole machine, as server vendors build it.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.samples import Row
from runners.power.sources import sysfs

_DRIVERS = ("power_meter",)
_PERIOD_MS = 100.0
_LABEL = re.compile(r"(Grace|CPU|SysIO|Module|Total) Power Socket (\d+)", re.IGNORECASE)
_GAIN_ERROR = 0.05
_WHOLE, _RAIL = ("grace", "total"), "cpu"


@dataclass(frozen=True)
class _Meter:
    """``kind``: the first word of its label in small letters; empty without one. ``mean_ms``: what a reading covers."""

    watts: Path
    kind: str
    socket: int
    label: str
    mean_ms: float


class HwmonSource:
    name = "hwmon"
    period_ms = _PERIOD_MS

    def __init__(self, hwmon: Path = sysfs.HWMON) -> None:
        self.notes: list[Note] = []
        self._read_from: dict[str, tuple[_Meter, Device]] = {}
        meters = [meter for path in sysfs.monitors(hwmon, _DRIVERS) if (meter := self._open(path))]
        for meter in self._chosen(meters):
            device = _device(meter)
            self._read_from[device.id] = (meter, device)
        if not self._read_from and not self.notes:
            text = (
                f"No ACPI power meter under {hwmon}: usual outside NVIDIA Grace and some servers. On Grace: modprobe "
            )
            self.notes.append(Note("hwmon_missing", text + "acpi_power_meter."))

    def devices(self) -> list[Device]:
        return [device for _, device in self._read_from.values()]

    def read(self) -> list[Row]:
        rows: list[Row] = []
        for meter, device in self._read_from.values():
            t_ns, power_uw = time.monotonic_ns(), sysfs.number(meter.watts)
            if power_uw is not None:
                rows.append(
                    {"t_ns": t_ns, "device": device.id, "layer": device.layer.value, "power_mw": power_uw / 1e3}
                )
        return rows

    def close(self) -> None:
        """Nothing is held open."""

    def _open(self, monitor: Path) -> _Meter | None:
        """The files are in the monitor's folder, or in that of its device with older kernels."""
        folder = next((place for place in (monitor, monitor / "device") if (place / "power1_average").exists()), None)
        if folder is None:
            return None
        refused = sysfs.unreadable(folder / "power1_average")
        if refused:
            self.notes.append(Note("hwmon_permission", refused))
            return None
        label = sysfs.text(folder / "power1_oem_info")
        named = _LABEL.fullmatch(label)
        kind, socket = (named[1].lower(), int(named[2])) if named else ("" if not label else "other", 0)
        mean_ms = sysfs.number(folder / "power1_average_interval") or _PERIOD_MS
        return _Meter(folder / "power1_average", kind, socket, label, mean_ms)

    def _chosen(self, meters: list[_Meter]) -> list[_Meter]:
        """The whole of each socket where it is measured, else its rail; and the machine's own meter."""
        chosen = [meter for meter in meters if not meter.kind][:1]
        for socket in sorted({meter.socket for meter in meters if meter.kind in (*_WHOLE, _RAIL, "sysio", "module")}):
            of_socket = {meter.kind: meter for meter in meters if meter.socket == socket and meter.kind}
            whole = next((of_socket[kind] for kind in _WHOLE if kind in of_socket), None)
            if whole is not None:
                chosen.append(whole)
                others = ", ".join(meter.label for meter in of_socket.values() if meter is not whole)
                text = f"{whole.label} holds the CPU side of the socket whole; not added to it: {others or 'nothing'}."
                self.notes.append(Note("hwmon_coverage", text))
            elif _RAIL in of_socket:
                chosen.append(of_socket[_RAIL])
                text = (
                    f"Of socket {socket} only one rail is measured ({of_socket[_RAIL].label}): about half of what the "
                    "socket draws. Update the firmware for the meter named Grace Power Socket."
                )
                self.notes.append(Note("hwmon_one_rail", text))
            else:
                self.notes.append(Note("hwmon_no_socket", f"Socket {socket} has no meter of its CPU side: left out."))
        self._note_others(meters)
        return chosen

    def _note_others(self, meters: list[_Meter]) -> None:
        for meter in meters:
            if meter.kind == "other":
                text = f"The power meter labelled {meter.label!r} is not known here: left out."
                self.notes.append(Note("hwmon_unknown", text))


def _device(meter: _Meter) -> Device:
    machine, rail = not meter.kind, meter.kind == _RAIL
    return Device(
        id="acpi-machine" if machine else f"socket-{meter.socket}",
        name="ACPI power meter of the machine" if machine else meter.label,
        layer=Layer.HOST if machine else Layer.CPU,
        source="hwmon",
        mark=Mark.MEASURED,
        update_ms=max(_PERIOD_MS, meter.mean_ms),
        reading=f"ACPI power meter (mean over {meter.mean_ms:.0f} ms), integrated",
        gain_low=1 - _GAIN_ERROR,
        gain_high=2.0 if rail else 1 + _GAIN_ERROR,
        gain_source="one rail of the socket: the socket draws up to twice as much" if rail else "±5 % is assumed",
        counter=False,
        power_column="power_mw",
        power_window_ms=meter.mean_ms,
    )
