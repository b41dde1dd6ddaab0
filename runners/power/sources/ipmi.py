"""Power of the whole machine as its management controller tells it: ``ipmitool dcmi power reading``."""

import re
import shutil
import subprocess
import time

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.polling import Poller
from runners.power.samples import Row

_PERIOD_S = 1.0
_TIMEOUT_S = 10.0
_UPDATE_MS = 2_000.0
_GAIN_ERROR = 0.05
_COMMAND = ("dcmi", "power", "reading")
_WATTS = re.compile(r"Instantaneous power reading:\s*(\d+(?:\.\d+)?)\s*Watts", re.IGNORECASE)
_STATE = re.compile(r"Power reading state is:\s*(\w+)", re.IGNORECASE)


class IpmiSource:
    name = "ipmi"
    period_ms = 1e3 * _PERIOD_S

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self._tool = shutil.which("ipmitool") or ""
        self._devices: list[Device] = []
        first: list[Row] = []
        if self._tool:
            first = self._poll()
        else:
            text = "ipmitool is not installed. On a server with a management controller: apt install ipmitool; run as "
            self.notes.append(Note("ipmi_missing", text + "root."))
        if first:
            self._devices = [_DEVICE]
        self._poller = Poller(self._poll, _PERIOD_S, first)

    def devices(self) -> list[Device]:
        return self._devices

    def read(self) -> list[Row]:
        return self._poller.take() if self._devices else []

    def close(self) -> None:
        self._poller.close()

    def _poll(self) -> list[Row]:
        before_ns = time.monotonic_ns()
        try:
            done = subprocess.run(
                [self._tool, *_COMMAND], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
            words = f"{done.stdout}\n{done.stderr}"
        except (OSError, subprocess.TimeoutExpired) as error:
            words = str(error)
        watts, state = _WATTS.search(words), _STATE.search(words)
        if watts is None or (state is not None and state[1].lower() != "activated"):
            last = words.strip().rpartition("\n")[2] or "no words"
            self._note_once(
                f"ipmitool gives no power reading ({last}). It needs root, /dev/ipmi0 (modprobe -a ipmi_si "
                "ipmi_devintf) and a controller that knows DCMI."
            )
            return []
        row: Row = {"device": _DEVICE.id, "layer": Layer.HOST.value, "power_mw": float(watts[1]) * 1e3}
        return [row | {"t_ns": (before_ns + time.monotonic_ns()) // 2}]

    def _note_once(self, text: str) -> None:
        if all(note.code != "ipmi_unreadable" for note in self.notes):
            self.notes.append(Note("ipmi_unreadable", text))


_DEVICE = Device(
    id="ipmi",
    name="Chassis (IPMI)",
    layer=Layer.HOST,
    source="ipmi",
    mark=Mark.MEASURED,
    update_ms=_UPDATE_MS,
    reading="DCMI instantaneous power, integrated",
    gain_low=1 - _GAIN_ERROR,
    gain_high=1 + _GAIN_ERROR,
    gain_source="±5 % is assumed for power supplies' own meters; an update every 2 s is assumed",
    counter=False,
    power_column="power_mw",
)
