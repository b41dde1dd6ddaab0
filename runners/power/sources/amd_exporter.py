"""AMD GPUs of another machine through AMD's device-metrics-exporter."""

from runners.meters import AmdExporter
from runners.power.sources.exporter import ExporterSource, Form


def _names(*names: str) -> tuple[str, ...]:
    """With the prefix that the exporter can be told to write, and without."""
    return (*names, *(f"amd_{name}" for name in names))


FORM = Form(
    name="amd-exporter",
    columns={
        "power_mw": (_names("gpu_package_power", "gpu_power_usage", "gpu_average_package_power"), 1e3),
        "energy_mj": (_names("gpu_energy_consumed"), 1e-3),
        "temperature_c": (_names("gpu_junction_temperature", "gpu_edge_temperature"), 1.0),
        "utilisation_pct": (_names("gpu_gfx_activity"), 1.0),
    },
    ids=("serial_number", "gpu_id"),
    label="card_model",
    host="hostname",
    index="gpu_id",
    part="gpu_partition_id",
    power_window_ms=0.0,
    assumed_update_ms=1_000.0,
    how="Let the exporter write GPU_PACKAGE_POWER and GPU_ENERGY_CONSUMED; it listens on port 5000.",
)


class AmdExporterSource(ExporterSource):
    def __init__(self, meter: AmdExporter) -> None:
        super().__init__(FORM, meter)
