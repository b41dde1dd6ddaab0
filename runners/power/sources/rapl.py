"""CPU packages and DRAM through the kernel's powercap files (RAPL), on Intel and AMD."""

import time
from dataclasses import dataclass
from pathlib import Path

from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note, SourceError
from runners.power.polling import MeanPower
from runners.power.samples import Row

POWERCAP = Path("/sys/class/powercap")
#: Watts that no package or DRAM domain exceeds, for the shortest time in which its counter can wrap.
MAX_DOMAIN_W = 1_000.0

#: Relative error taken for each layer; DRAM is often modelled by the memory controller.
_GAIN_ERROR = {Layer.CPU: 0.05, Layer.DRAM: 0.20}
_HOW_TO_GRANT = (
    "RAPL counters are readable by root only (CVE-2020-8694). To grant them to this user: "
    "sudo chgrp $(id -gn) /sys/class/powercap/intel-rapl:*/energy_uj && "
    "sudo chmod g+r /sys/class/powercap/intel-rapl:*/energy_uj "
    "(until the next boot; a udev or tmpfiles.d rule makes it stay)."
)


@dataclass
class _Domain:
    path: Path
    device: Device
    power: MeanPower


def shortest_wrap_s(range_uj: float, max_w: float = MAX_DOMAIN_W) -> float:
    """Seconds in which a counter of this range (µJ) can go round once at ``max_w``."""
    return range_uj / 1e6 / max_w


class RaplSource:
    """Sums packages and their DRAM; the psys domain, which holds the packages again, is never read.

    Raises SourceError when ``period_ms`` is too slow to see every wrap of a counter.
    """

    name = "rapl"

    def __init__(self, powercap: Path = POWERCAP, period_ms: float = 100.0, max_domain_w: float = MAX_DOMAIN_W) -> None:
        self.period_ms = period_ms
        self.notes: list[Note] = []
        self._domains = [domain for path in _zones(powercap) if (domain := self._open(path, max_domain_w))]
        if not self._domains and not self.notes:
            self.notes.append(
                Note("rapl_missing", f"No RAPL counters under {powercap}: usual in virtual machines and on ARM.")
            )

    def devices(self) -> list[Device]:
        return [domain.device for domain in self._domains]

    def read(self) -> list[Row]:
        return [row for domain in self._domains if (row := _read(domain))]

    def close(self) -> None:
        """Nothing is held open."""

    def _open(self, path: Path, max_domain_w: float) -> _Domain | None:
        name = _text(path / "name") or path.name
        layer = _layer(name)
        if layer is None:
            return None
        try:
            energy_uj = int((path / "energy_uj").read_text())
        except PermissionError:
            if all(note.code != "rapl_permission" for note in self.notes):
                self.notes.append(Note("rapl_permission", _HOW_TO_GRANT))
            return None
        except (OSError, ValueError) as error:
            self.notes.append(Note("rapl_unreadable", f"{path / 'energy_uj'} cannot be read: {error}"))
            return None
        if energy_uj == 0:
            self.notes.append(Note("rapl_dead_counter", f"The counter of {name} has stood at 0 since boot: left out."))
            return None
        range_uj = _range_uj(path)
        self._check_period(name, range_uj, max_domain_w)
        return _Domain(path, _device(path, name, layer, self.period_ms, range_uj), MeanPower())

    def _check_period(self, name: str, range_uj: float | None, max_domain_w: float) -> None:
        if range_uj is None:
            self.notes.append(
                Note("rapl_no_range", f"The range of {name} cannot be read: a window in which it wraps is lost.")
            )
        elif self.period_ms / 1e3 > shortest_wrap_s(range_uj, max_domain_w) / 2:
            raise SourceError(
                f"a sampling period of {self.period_ms / 1e3:g} s is too slow for {name}: its counter can wrap in "
                f"{shortest_wrap_s(range_uj, max_domain_w):.0f} s; sample at least twice in that time"
            )


def _zones(powercap: Path) -> list[Path]:
    """Domains, packages before their parts. The mmio twins of the same packages are left out."""
    return sorted(path for path in powercap.glob("intel-rapl:*") if path.is_dir())


def _layer(name: str) -> Layer | None:
    if name.startswith("package"):
        return Layer.CPU
    return Layer.DRAM if name.startswith("dram") else None


def _device(path: Path, name: str, layer: Layer, period_ms: float, range_uj: float | None) -> Device:
    error = _GAIN_ERROR[layer]
    package = _text(path.parent / path.name.rpartition(":")[0] / "name")
    return Device(
        id=path.name,
        name=f"{name} of {package}" if layer is Layer.DRAM and package else name,
        layer=layer,
        source="rapl",
        mark=Mark.MEASURED,
        update_ms=period_ms,
        reading="RAPL energy counter",
        gain_low=1 - error,
        gain_high=1 + error,
        gain_source=f"±{error:.0%} is assumed for RAPL",
        wraps=True,
        wraps_at_mj=range_uj / 1e3 if range_uj is not None else None,
    )


def _read(domain: _Domain) -> Row | None:
    t_ns = time.monotonic_ns()
    try:
        energy_mj = int((domain.path / "energy_uj").read_text()) / 1e3
    except (OSError, ValueError):
        return None
    return {
        "t_ns": t_ns,
        "device": domain.device.id,
        "layer": domain.device.layer.value,
        "power_mw": domain.power.step_mw(t_ns, energy_mj),
        "energy_mj": energy_mj,
    }


def _range_uj(path: Path) -> float | None:
    try:
        return float(int((path / "max_energy_range_uj").read_text()))
    except (OSError, ValueError):
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
