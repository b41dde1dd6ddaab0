"""Scripted GPUs behind the real NVML binding, and small tables of samples."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runners.metrics import Mark
from runners.power.devices import Device, Layer
from runners.power.samples import SCHEMA

ROOT = Path(__file__).parents[3]
FAKE = ROOT / "tests/native/fake_nvml.c"

_READ = """
import json, sys, time
from runners.power.sources import describe, open_sources
from runners.spec import Power
sources = open_sources(Power(source=sys.argv[1]))
rows = []
for _ in range(int(sys.argv[2])):
    rows += [row for source in sources for row in source.read()]
    time.sleep(0.1)
print(json.dumps({"rows": rows, **describe(sources)}))
"""


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a libnvidia-ml.so.1 that plays the GPUs of the script named by NVML_SCRIPT."""
    compiler = shutil.which("gcc")
    if compiler is None:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("gcc is needed for the scripted GPUs: apt install gcc libc6-dev")
        pytest.skip("needs gcc: apt install gcc libc6-dev")
    folder = tmp_path_factory.mktemp("nvml")
    library = folder / "libnvidia-ml.so.1"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    command = [compiler, *flags, "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(FAKE), "-lm"]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture
def gpus(nvml_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Gives every process started from here on the GPUs of a script."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(nvml_library))
    monkeypatch.setenv("NVML_SCRIPT", str(tmp_path / "gpus"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def play(script: str) -> None:
        (tmp_path / "gpus").write_text(script)

    return play


@pytest.fixture
def read_sources() -> Callable[..., dict[str, Any]]:
    """Opens sources in a process of its own, reads them so many times and gives rows and description."""

    def read(source: str = "nvml", times: int = 1) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-c", _READ, source, str(times)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return read


@pytest.fixture
def device() -> Callable[..., Device]:
    """A measured device with a counter of 100 ms and instantaneous power beside it, unless said otherwise."""

    def make(device_id: str = "gpu", **changes: Any) -> Device:
        facts = {
            "id": device_id,
            "name": "Card",
            "layer": Layer.ACCELERATOR,
            "source": "nvml",
            "mark": Mark.MEASURED,
            "update_ms": 100.0,
            "reading": "counter",
            "gain_low": 0.95,
            "gain_high": 1.05,
            "gain_source": "±5 %",
            "power_column": "power_mw",
        }
        return Device(**(facts | changes))

    return make


@pytest.fixture
def description() -> Callable[..., dict[str, Any]]:
    def make(*devices: Device, notes: tuple[dict[str, str], ...] = ()) -> dict[str, Any]:
        return {"devices": [device.to_json() for device in devices], "notes": list(notes)}

    return make


@pytest.fixture
def table() -> Callable[[list[dict[str, Any]]], pa.Table]:
    def make(rows: list[dict[str, Any]]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=SCHEMA)

    return make
