"""The power sources, registered in one place. A new one adds its module and a line in ``SOURCES``."""

from collections.abc import Callable, Sequence
from typing import Any

from runners.power.devices import Note, SourceError, weakest
from runners.power.sources.base import Source
from runners.power.sources.estimate import EstimateSource
from runners.power.sources.nvml import NvmlSource
from runners.power.sources.rapl import RaplSource
from runners.spec import Power

SOURCES: dict[str, Callable[[Power], Source]] = {
    "nvml": lambda power: NvmlSource(),
    "rapl": lambda power: RaplSource(),
    "estimate": lambda power: EstimateSource(power.cpu_idle_w, power.cpu_max_w),
}
SOURCE_NAMES = ("auto", *SOURCES, "none")

SAMPLED_HOST = Note(
    "sampled_host",
    "Power is that of the machine that samples: it tells nothing of a server on another machine. Host power is that of "
    "the whole machine, so a load generator beside the server is in the figure with its own CPU time.",
)


def check_name(name: str) -> None:
    """Raises SourceError for a source that is not known."""
    if name not in SOURCE_NAMES:
        raise SourceError(f"power source {name!r} is not known; choose one of {', '.join(SOURCE_NAMES)}")


def open_sources(power: Power) -> list[Source]:
    """The opened sources that serve ``power.source``.

    ``auto`` takes NVML for accelerators, and RAPL for the host where it can be read, else the modelled CPU. Sources
    without devices stay in the list for their notes. Raises SourceError for an unknown name or impossible CPU watts.
    """
    check_name(power.source)
    if power.source == "none":
        return []
    if power.source != "auto":
        return [SOURCES[power.source](power)]
    sources = [SOURCES["nvml"](power), SOURCES["rapl"](power)]
    if not sources[1].devices():
        sources.append(SOURCES["estimate"](power))
    return sources


def describe(sources: Sequence[Source]) -> dict[str, Any]:
    """The "power" account of summary.json; ``idle_w`` and ``idle_mark`` are for the one who measures idle power."""
    devices = [device for source in sources for device in source.devices()]
    notes = [note for source in sources for note in source.notes]
    if devices:
        notes.append(SAMPLED_HOST)
    return {
        "source": "+".join(source.name for source in sources if source.devices()) or "none",
        "mark": weakest(device.mark for device in devices),
        "devices": [device.to_json() for device in devices],
        "notes": [note._asdict() for note in notes],
        "period_ms": min((source.period_ms for source in sources if source.devices()), default=None),
        "idle_w": None,
        "idle_mark": None,
    }
