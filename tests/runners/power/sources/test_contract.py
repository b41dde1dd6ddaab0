"""What holds for every power source, each behind its real protocol and drawing 250 W all the while.

All sources are opened and read in one span of time, so that the whole takes a few seconds.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from statistics import median

import pyarrow as pa
import pytest

from runners.meters import EXAMPLES, AmdExporter, Dcgm, GpuModel, JsonMeter, Prometheus, Redfish, SmiLog
from runners.power.devices import Device, Layer
from runners.power.samples import SCHEMA
from runners.power.sources import METERS, SOURCES, Archive, describe
from runners.power.sources.amd import AmdSource
from runners.power.sources.amd_exporter import AmdExporterSource
from runners.power.sources.dcgm import DcgmSource
from runners.power.sources.estimate import EstimateSource
from runners.power.sources.gpu_model import GpuModelSource
from runners.power.sources.hwmon import HwmonSource
from runners.power.sources.ipmi import IpmiSource
from runners.power.sources.meter import MeterSource
from runners.power.sources.prometheus import PrometheusSource
from runners.power.sources.rapl import RaplSource
from runners.power.sources.redfish import RedfishSource
from runners.power.sources.smi_log import SmiLogSource
from runners.power.sources.xpu import XpuSource
from tests.services import instruments
from tests.services.instruments import WATTS

ROOT = Path(__file__).parents[4]
NAMES = (*SOURCES, *METERS)
_SECONDS = 2.6
_NVML = """
import json, time
from runners.power.sources import describe, open_sources
from runners.spec import Power
sources = open_sources(Power("nvml"))
rows, end = [], time.monotonic() + 2.4
while time.monotonic() < end:
    rows += [row for source in sources for row in source.read()]
    time.sleep(0.05)
print(json.dumps({"rows": rows, **describe(sources)}))
"""


class Recorded:
    """What a source gave while it was read."""

    def __init__(self, description, rows, before_ns, after_ns):
        self.devices = [Device.from_json(data) for data in description["devices"]]
        self.description, self.rows = description, rows
        self.before_ns, self.after_ns = before_ns, after_ns

    def watts(self, device):
        """By power readings, and by the counter where there is one, each with how far off it may be: a single reading
        spans a tenth of a second, of which a fake that is held up takes a part.
        """
        rows = [row for row in self.rows if row["device"] == device.id]
        counted = [(row["t_ns"], row["energy_mj"]) for row in rows if row.get("energy_mj") is not None]
        powers = [row["power_mw"] / 1e3 for row in rows if row.get("power_mw") is not None]
        found = [(median(powers), 0.1)] if powers else []
        if device.counter:
            (first_ns, first_mj), (last_ns, last_mj) = counted[0], counted[-1]
            found.append(((last_mj - first_mj) / (last_ns - first_ns) * 1e6, 0.05))
        return found


def opened(folder: Path, stack: ExitStack) -> dict:
    """Every source of this process, each with its own fake."""

    def url(script):
        return stack.enter_context(instruments.serving(script)).url

    def tree(make):
        made = make(folder / make.__name__)
        stack.callback(made.close)
        return made.root

    drm = instruments.Tree(folder / "drm", {"card0/device/gpu_busy_percent": "50"})
    stack.callback(drm.close)
    stat = folder / "stat"
    stat.write_text("cpu 0 0 0 0 0 0 0 0 0 0\n")
    instruments.smi_log(folder / "smi.csv", 60, end_s=time.time() + 30)
    offset_ns = time.time_ns() - time.monotonic_ns()
    return {
        "amd": AmdSource(),
        "xpu": XpuSource(tree(instruments.intel_gpu)),
        "rapl": RaplSource(tree(instruments.powercap)),
        "hwmon": HwmonSource(tree(instruments.grace)),
        "ipmi": IpmiSource(),
        "estimate": EstimateSource(WATTS, WATTS),
        "dcgm": DcgmSource(Dcgm(url(instruments.dcgm_page) + "/metrics")),
        "amd-exporter": AmdExporterSource(AmdExporter(url(instruments.amd_page) + "/metrics")),
        "redfish": RedfishSource(Redfish(url(instruments.redfish()), update_s=0.5)),
        "meter": MeterSource(JsonMeter(url(instruments.shelly), pointer="/apower")),
        "gpu-model": GpuModelSource(GpuModel(tdp_w=400, idle_w=100), drm=drm.root),
        "prometheus": PrometheusSource(
            Prometheus(url(instruments.Prometheus()), query="DCGM_FI_DEV_POWER_USAGE", step_s=0.1), offset_ns
        ),
        "csv": SmiLogSource(SmiLog(str(folder / "smi.csv"), "UTC"), offset_ns),
    }


@pytest.fixture(scope="module")
def recorded(nvml_library, tmp_path_factory) -> Iterator[dict[str, Recorded]]:
    folder = tmp_path_factory.mktemp("instruments")
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
            patch.delenv(name, raising=False)
        patch.syspath_prepend(str(ROOT / "tests/stand_ins"))
        import amdsmi

        patch.setattr(amdsmi, "GPUS", [amdsmi.Gpu("amd-uuid-0", WATTS)])
        (folder / "bin").mkdir()
        instruments.ipmitool(folder / "bin")
        patch.setenv("PATH", str(folder / "bin"), prepend=":")
        before_ns = time.monotonic_ns()
        child = nvml_child(nvml_library, folder, patch)
        sources = opened(folder, stack)
        rows: dict[str, list] = {name: [] for name in sources}
        end_s = time.monotonic() + _SECONDS
        while time.monotonic() < end_s:
            for name, source in sources.items():
                rows[name] += source.read()
            time.sleep(0.1)
        after_ns = time.monotonic_ns()
        for name, source in sources.items():
            if isinstance(source, Archive):
                rows[name] = source.between(before_ns, after_ns)
        found = {
            name: Recorded(describe([source]), rows[name], before_ns, after_ns) for name, source in sources.items()
        }
        out, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
        told = json.loads(out)
        found["nvml"] = Recorded(told, told["rows"], before_ns, time.monotonic_ns())
        yield found
        for source in sources.values():
            source.close()
    sys.modules.pop("amdsmi", None)


def nvml_child(library, folder, patch):
    (folder / "gpus").write_text(f"gpus 1\nconstant 0 {int(WATTS * 1e3)}\n")
    patch.setenv("LD_LIBRARY_PATH", str(library))
    patch.setenv("NVML_SCRIPT", str(folder / "gpus"))
    return subprocess.Popen(
        [sys.executable, "-c", _NVML], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_every_source_is_under_the_contract(recorded):
    assert set(recorded) == set(NAMES)
    assert set(EXAMPLES) == set(METERS)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_measures_how_and_how_well(recorded, name):
    devices = recorded[name].devices
    assert devices
    assert len({device.id for device in devices}) == len(devices)
    for device in devices:
        assert device.source == name
        assert device.layer in Layer
        assert device.update_ms > 0
        assert device.gain_low < 1 < device.gain_high
        assert device.reading
        assert device.gain_source
        assert device.counter or device.power_column


@pytest.mark.parametrize("name", NAMES)
def test_its_rows_fit_the_file_and_the_clock(recorded, name):
    found = recorded[name]
    assert pa.Table.from_pylist(found.rows, schema=SCHEMA).num_rows > 1
    layers = {device.id: device.layer for device in found.devices}
    for row in found.rows:
        assert layers[row["device"]] == row["layer"]
        assert found.before_ns - 200_000_000 <= row["t_ns"] <= found.after_ns + 200_000_000
        assert all(isfinite(value) for value in row.values() if isinstance(value, float))
        assert not set(row) - set(SCHEMA.names)


@pytest.mark.parametrize("name", NAMES)
def test_it_reads_the_watts_that_are_drawn(recorded, name):
    for device in recorded[name].devices:
        found = recorded[name].watts(device)
        assert found
        assert [watts for watts, _ in found] == [pytest.approx(WATTS, rel=off) for _, off in found]


@pytest.mark.parametrize("name", NAMES)
def test_times_of_a_device_never_go_back(recorded, name):
    for device in recorded[name].devices:
        stamps = [row["t_ns"] for row in recorded[name].rows if row["device"] == device.id]
        assert stamps == sorted(stamps)


def absent(name, folder, monkeypatch):
    """The same source where there is nothing to be measured."""
    dead = "http://127.0.0.1:9"
    offset_ns = time.time_ns() - time.monotonic_ns()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setitem(sys.modules, "amdsmi", None)
    made = {
        "nvml": lambda: SOURCES["nvml"](None),
        "amd": AmdSource,
        "xpu": lambda: XpuSource(folder),
        "rapl": lambda: RaplSource(folder),
        "hwmon": lambda: HwmonSource(folder),
        "ipmi": IpmiSource,
        "estimate": lambda: EstimateSource(stat_path=folder / "stat"),
        "dcgm": lambda: DcgmSource(Dcgm(dead)),
        "amd-exporter": lambda: AmdExporterSource(AmdExporter(dead)),
        "redfish": lambda: RedfishSource(Redfish(dead)),
        "meter": lambda: MeterSource(JsonMeter(dead, pointer="/apower")),
        "gpu-model": lambda: GpuModelSource(GpuModel(), drm=folder),
        "prometheus": lambda: PrometheusSource(Prometheus(dead, query="up"), offset_ns),
        "csv": lambda: SmiLogSource(SmiLog(str(folder / "none.csv"), "UTC"), offset_ns),
    }
    return made[name]()


@pytest.mark.parametrize("name", NAMES)
def test_where_there_is_nothing_it_says_why_and_gives_no_rows(name, tmp_path, monkeypatch):
    source = absent(name, tmp_path, monkeypatch)
    assert source.devices() == []
    assert source.read() == []
    (note, *_) = source.notes
    assert note.code
    assert len(note.text.split()) > 6
    source.close()
