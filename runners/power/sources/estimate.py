"""Modelled CPU power: idle watts plus what utilisation adds, from /proc/stat."""

import os
import time
from pathlib import Path

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note, SourceError
from runners.power.samples import Row

#: Mean of AWS machines per vCPU, as Cloud Carbon Footprint publishes it in its methodology.
IDLE_W_PER_CPU = 0.74
MAX_W_PER_CPU = 3.5
DEFAULTS_SOURCE = "Cloud Carbon Footprint's averages for AWS, 0.74 W idle and 3.5 W at full use per logical CPU"
UNCERTAINTY = 0.5

_PERIOD_MS = 100.0
#: user nice system idle iowait irq softirq steal: time that a hypervisor stole was spent on others, so it is not ours.
_BUSY = (0, 1, 2, 5, 6)
_ALL = 8


class EstimateSource:
    """``idle_w`` and ``max_w`` are watts of all CPUs of the machine together; one that is missing follows from the
    other by the published ratio, both missing mean the published watts. Raises SourceError when they are impossible.
    """

    name = "estimate"
    period_ms = _PERIOD_MS

    def __init__(
        self, idle_w: float | None = None, max_w: float | None = None, stat_path: Path = Path("/proc/stat")
    ) -> None:
        self.notes: list[Note] = []
        self._stat_path = stat_path
        self._idle_w, self._max_w, origin = _watts(idle_w, max_w)
        self._energy_mj = 0.0
        try:
            self._last = (time.monotonic_ns(), *self._busy_and_total())
        except (OSError, ValueError) as error:
            self._devices: list[Device] = []
            self.notes.append(Note("estimate_unavailable", f"CPU use cannot be read from {stat_path}: {error}"))
            return
        self._devices = [_device(origin)]
        self.notes.append(
            Note(
                "cpu_modelled",
                f"CPU power is modelled, not measured: {self._idle_w:.3g} W idle to {self._max_w:.3g} W at full use of "
                f"{os.cpu_count()} logical CPUs ({origin}), ±50 %. Give the CPU's own watts for a closer figure.",
            )
        )

    def devices(self) -> list[Device]:
        return self._devices

    def read(self) -> list[Row]:
        if not self._devices:
            return []
        t_ns = time.monotonic_ns()
        busy, total = self._busy_and_total()
        then_ns, then_busy, then_total = self._last
        if total <= then_total:
            return []
        self._last = (t_ns, busy, total)
        utilisation = min(1.0, max(0.0, (busy - then_busy) / (total - then_total)))
        power_mw = 1e3 * (self._idle_w + (self._max_w - self._idle_w) * utilisation)
        self._energy_mj += power_mw * (t_ns - then_ns) / 1e9
        return [
            {
                "t_ns": t_ns,
                "device": "cpu",
                "layer": Layer.CPU.value,
                "power_mw": power_mw,
                "energy_mj": self._energy_mj,
                "utilisation_pct": 100 * utilisation,
            }
        ]

    def close(self) -> None:
        """Nothing is held open."""

    def _busy_and_total(self) -> tuple[int, int]:
        """Clock ticks since boot, over all CPUs."""
        with self._stat_path.open() as stat:
            head, *fields = stat.readline().split()
        if head != "cpu" or len(fields) < _ALL:
            raise ValueError("its first line is not the sum over all CPUs")
        ticks = [int(field) for field in fields[:_ALL]]
        return sum(ticks[i] for i in _BUSY), sum(ticks)


def _watts(idle_w: float | None, max_w: float | None) -> tuple[float, float, str]:
    cpus = os.cpu_count() or 1
    ratio = IDLE_W_PER_CPU / MAX_W_PER_CPU
    if idle_w is None and max_w is None:
        return IDLE_W_PER_CPU * cpus, MAX_W_PER_CPU * cpus, DEFAULTS_SOURCE
    top_w = max_w if max_w is not None else (idle_w or 0.0) / ratio
    floor_w = idle_w if idle_w is not None else top_w * ratio
    if not 0 <= floor_w <= top_w or top_w == 0:
        raise SourceError(
            f"power.cpu_idle_w ({floor_w:g}) and power.cpu_max_w ({top_w:g}) are watts of all CPUs together: idle must "
            "be 0 or more and at most the maximum, which must be above 0"
        )
    return floor_w, top_w, "watts as given"


def _device(origin: str) -> Device:
    return Device(
        id="cpu",
        name=cpu_name(),
        layer=Layer.CPU,
        source="estimate",
        mark=Mark.MODELLED,
        update_ms=_PERIOD_MS,
        reading=f"CPU use × {origin}",
        gain_low=1 - UNCERTAINTY,
        gain_high=1 + UNCERTAINTY,
        gain_source="±50 % is assumed for a model of this kind",
    )


def cpu_name(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The CPU's name as the kernel tells it; "CPU" where it tells none."""
    try:
        for line in cpuinfo.read_text(errors="replace").splitlines():
            if line.lower().startswith(("model name", "hardware")):
                return line.partition(":")[2].strip() or "CPU"
    except OSError:
        pass
    return "CPU"
