"""NVIDIA GPUs of another machine through dcgm-exporter."""

from runners.meters import Dcgm
from runners.power.devices import Note
from runners.power.sources.exporter import ExporterSource, Form

_RAIL = Note(
    "dcgm_cpu_rail",
    "DCGM's CPU power is one rail of a Grace socket, about half of what the socket draws: it is not counted. Sample "
    "the ACPI power meters on that machine (source hwmon).",
)

FORM = Form(
    name="dcgm",
    columns={
        "power_mw": (("DCGM_FI_DEV_POWER_USAGE",), 1e3),
        "power_instant_mw": (("DCGM_FI_DEV_POWER_USAGE_INSTANT",), 1e3),
        "energy_mj": (("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",), 1.0),
        "temperature_c": (("DCGM_FI_DEV_GPU_TEMP",), 1.0),
        "utilisation_pct": (("DCGM_FI_DEV_GPU_UTIL",), 1.0),
        "clock_mhz": (("DCGM_FI_DEV_SM_CLOCK",), 1.0),
        "power_limit_mw": (("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT"), 1e3),
    },
    ids=("UUID", "gpu"),
    label="modelName",
    host="Hostname",
    index="gpu",
    part="GPU_I_ID",
    power_window_ms=1000.0,
    assumed_update_ms=30_000.0,
    how="Start dcgm-exporter with -c 1000 (its default is every 30 s), and with DCGM_FI_DEV_POWER_USAGE and "
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION among its counters.",
    not_counted={"DCGM_FI_DEV_CPU_POWER_UTIL_CURRENT": _RAIL},
)


class DcgmSource(ExporterSource):
    def __init__(self, meter: Dcgm) -> None:
        super().__init__(FORM, meter)
