"""Facts of an NVIDIA board that do not change while it is sampled, and what people must know of them."""

from dataclasses import dataclass
from typing import Any

import pynvml

from runners.power.devices import Note
from runners.power.sources.nvml_period import Periods
from runners.power.sources.nvml_reads import SCOPES, Reads, ask, power_smoothing
from runners.power.sources.nvml_sensors import Sensor, grace_name
from runners.power.sources.nvml_visible import Identity

_VIRTUALIZATION = {
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_NONE: "none",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH: "passthrough",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU: "vgpu guest",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU: "vgpu host",
    pynvml.NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA: "vsga host",
}
#: Other guests or instances may draw power from the same board.
_SHARING = ("vgpu guest", "vgpu host", "vsga host")
#: Probing is exact to a few percent.
_SAME = 0.1


@dataclass(frozen=True)
class BoardFacts:
    """``shared``: others may use the board too."""

    told: dict[str, Any]
    shared: bool
    notes: list[Note]


def board_facts(handle: Any, identity: Identity, traits: Sensor, reads: Reads) -> BoardFacts:
    """Raises NVMLError when the board is lost."""
    modes = ask(pynvml.nvmlDeviceGetMigMode, handle)
    mig = None if modes is None else bool(modes[0])
    mode = ask(pynvml.nvmlDeviceGetVirtualizationMode, handle)
    virtual = None if mode is None else _VIRTUALIZATION.get(mode, str(mode))
    limit_mw = ask(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    default_mw = ask(pynvml.nvmlDeviceGetPowerManagementDefaultLimit, handle)
    smoothing = power_smoothing(handle)
    told = {
        "index": identity.index,
        "generation": traits.generation,
        "driver": ask(pynvml.nvmlSystemGetDriverVersion),
        "mig": mig,
        "virtualization": virtual,
        "power_limit_w": None if limit_mw is None else limit_mw / 1e3,
        "default_limit_w": None if default_mw is None else default_mw / 1e3,
        "power_scopes": [SCOPES[scope] for scope in reads.scopes],
        "power_smoothing": smoothing,
    }
    notes = _notes(identity.name, mig, virtual, reads) + _smoothing_notes(identity.name, smoothing)
    return BoardFacts(told, bool(mig) or virtual in _SHARING, notes)


def _notes(name: str, mig: bool | None, virtual: str | None, reads: Reads) -> list[Note]:
    notes = []
    if mig:
        text = "is split by MIG. Power exists for whole boards only: that of all its instances is in the figure."
        notes.append(Note("mig", f"{name} {text}"))
    if virtual in _SHARING:
        text = f"is shared by virtual machines ({virtual}): what others draw is in the figure, where it is told at all."
        notes.append(Note("vgpu", f"{name} {text}"))
    if reads.denied:
        text = "may not be read by this user: run as root, or let the administrator allow it (nvidia-smi --help)."
        notes.append(Note("nvml_denied", f"{name}: {', '.join(reads.denied)} {text}"))
    return notes


def _smoothing_notes(name: str, smoothing: dict[str, float] | None) -> list[Note]:
    if not smoothing or not smoothing["enabled"]:
        return []
    floor = f" to a floor of {smoothing['floor_pct']:g} %" if "floor_pct" in smoothing else ""
    text = (
        f"{name} smooths its power: at low load it burns power on purpose{floor}. Idle power and the energy of light "
        "loads hold that; compare them with boards in the same state only."
    )
    return [Note("power_smoothing", text)]


def on_module(name: str, reads: Reads) -> bool:
    """Whether the board is part of a Grace module, whose CPU and memory its energy counter may hold too."""
    return reads.module or grace_name(name)


def period_of(name: str, traits: Sensor, periods: Periods) -> tuple[float, list[Note]]:
    """The update period to reckon with (ms): the probed one of the counter, else of power, else the published one."""
    probed = periods.get("energy_mj") or periods.get("power_instant_mw") or periods.get("power_mw")
    published = traits.update_ms
    if probed is None or abs(probed - published) <= _SAME * published:
        return published, []
    words = (
        f"{name} renews its readings every {probed:g} ms, where {published:g} ms is published: the probed one counts."
    )
    return probed, [Note("update_period_differs", words)]
