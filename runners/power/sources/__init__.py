"""The power sources, registered in one place. A new one adds its module and a line in ``SOURCES`` or ``METERS``."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from runners.meters import EXAMPLES
from runners.power.devices import Device, Layer, Note, SourceError, weakest
from runners.power.samples import Row
from runners.power.sources.amd import AmdSource
from runners.power.sources.amd_exporter import AmdExporterSource
from runners.power.sources.base import Archive, Source
from runners.power.sources.dcgm import DcgmSource
from runners.power.sources.estimate import EstimateSource
from runners.power.sources.gpu_model import GpuModelSource
from runners.power.sources.hwmon import HwmonSource
from runners.power.sources.ipmi import IpmiSource
from runners.power.sources.meter import MeterSource
from runners.power.sources.nvml import NvmlSource
from runners.power.sources.prometheus import PrometheusSource
from runners.power.sources.rapl import RaplSource
from runners.power.sources.redfish import RedfishSource
from runners.power.sources.smi_log import SmiLogSource
from runners.power.sources.xpu import XpuSource
from runners.spec import Power

__all__ = ["METERS", "SOURCES", "SOURCE_NAMES", "Archive", "Source", "check_name", "describe", "open_sources"]

#: Instruments of the machine that samples.
SOURCES: dict[str, Callable[[Power], Source]] = {
    "nvml": lambda power: NvmlSource(),
    "amd": lambda power: AmdSource(),
    "xpu": lambda power: XpuSource(),
    "rapl": lambda power: RaplSource(),
    "hwmon": lambda power: HwmonSource(),
    "ipmi": lambda power: IpmiSource(),
    "estimate": lambda power: EstimateSource(power.cpu_idle_w, power.cpu_max_w),
}
#: Instruments that have to be told where they are, by the kind in ``runners.meters``; archives take the clock too.
METERS: dict[str, Callable[[Any, int], Source]] = {
    "dcgm": lambda meter, offset_ns: DcgmSource(meter),
    "amd-exporter": lambda meter, offset_ns: AmdExporterSource(meter),
    "redfish": lambda meter, offset_ns: RedfishSource(meter),
    "meter": lambda meter, offset_ns: MeterSource(meter),
    "gpu-model": lambda meter, offset_ns: GpuModelSource(meter),
    "prometheus": PrometheusSource,
    "csv": SmiLogSource,
}
SOURCE_NAMES = ("auto", *SOURCES, "none")

SAMPLED_HOST = Note(
    "sampled_host",
    "Power is that of the machine that samples: it tells nothing of a server on another machine. Host power is that of "
    "the whole machine, so a load generator beside the server is in the figure with its own CPU time.",
)


def check_name(names: str) -> None:
    """``names`` as in ``Power.source``, joined by "+". Raises SourceError for one that is not known."""
    for name in names.split("+"):
        if name in METERS:
            raise SourceError(f"power source {name!r} has to be told where it is: {EXAMPLES[name]}")
        if name not in SOURCE_NAMES:
            raise SourceError(
                f"power source {name!r} is not known; choose one of {', '.join((*SOURCE_NAMES, *METERS))}"
            )


def open_sources(power: Power, offset_ns: int | None = None) -> list[Source]:
    """The opened sources that serve ``power``, each device in the first that has it.

    ``auto`` takes the vendor's own figures for accelerators, and for the CPU what can be read of RAPL and Grace's
    meters, else the modelled CPU. Sources without devices stay in the list for their notes. ``offset_ns``: time since
    1970 less CLOCK_MONOTONIC of the samples that an archive's join; now's by default. Raises SourceError for what
    cannot be asked.
    """
    check_name(power.source)
    offset_ns = time.time_ns() - time.monotonic_ns() if offset_ns is None else offset_ns
    sources: list[Source] = []
    try:
        for name in power.source.split("+"):
            sources += _auto(power) if name == "auto" else [SOURCES[name](power)] if name != "none" else []
        sources += [METERS[meter.kind](meter, offset_ns) for meter in power.meters]
    except SourceError:
        for source in sources:
            source.close()
        raise
    return _distinct(sources)


def _auto(power: Power) -> list[Source]:
    accelerators = [SOURCES[name](power) for name in ("nvml", "amd", "xpu")]
    found = [source for source in accelerators if source.devices()] or accelerators[:1]
    cpus = [SOURCES["rapl"](power)]
    if not cpus[0].devices():
        grace = SOURCES["hwmon"](power)
        has_cpu = any(device.layer is Layer.CPU for device in grace.devices())
        cpus.append(grace if has_cpu else SOURCES["estimate"](power))
    return [*found, *cpus]


class _Without:
    """A source less the devices that another one serves already."""

    def __init__(self, source: Source, dropped: set[str], notes: list[Note]) -> None:
        self.name, self.period_ms = source.name, source.period_ms
        self._source, self._dropped, self._notes = source, dropped, notes

    @property
    def notes(self) -> list[Note]:
        return [*self._source.notes, *self._notes]

    def devices(self) -> list[Device]:
        return [device for device in self._source.devices() if device.id not in self._dropped]

    def read(self) -> list[Row]:
        return [row for row in self._source.read() if row["device"] not in self._dropped]

    def close(self) -> None:
        self._source.close()


def _distinct(sources: Sequence[Source]) -> list[Source]:
    """Each device once: a GPU that its driver and an exporter both tell of counts by the first of them."""
    seen: set[str] = set()
    kept: list[Source] = []
    for source in sources:
        if isinstance(source, Archive):  # its devices are known when its time has passed
            kept.append(source)
            continue
        ids = {device.id for device in source.devices()}
        again = ids & seen
        seen |= ids
        text = f"{source.name} tells of {len(again)} device(s) that are read otherwise already: each counts once."
        kept.append(_Without(source, again, [Note("device_repeated", text)]) if again else source)
    return kept


def describe(sources: Sequence[Source]) -> dict[str, Any]:
    """The "power" account of summary.json; ``idle_w`` and ``idle_mark`` are for the one who measures idle power."""
    devices = _first_of_each([device for source in sources for device in source.devices()])
    notes = [note for source in sources for note in source.notes]
    if any(source.name in SOURCES and source.devices() for source in sources):
        notes.append(SAMPLED_HOST)
    return {
        "source": "+".join(dict.fromkeys(source.name for source in sources if source.devices())) or "none",
        "mark": weakest(device.mark for device in devices),
        "devices": [device.to_json() for device in devices],
        "notes": [note._asdict() for note in notes],
        "period_ms": min((source.period_ms for source in sources if source.devices()), default=None),
        "idle_w": None,
        "idle_mark": None,
    }


def _first_of_each(devices: Sequence[Device]) -> list[Device]:
    return list({device.id: device for device in reversed(devices)}.values())[::-1]
