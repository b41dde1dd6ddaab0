"""Scripted GPUs behind the real NVML binding, and small tables of samples."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runners.metrics import Mark
from runners.power.devices import Device, Layer
from runners.power.samples import SCHEMA
from tests.services import nvml

ROOT = Path(__file__).parents[3]

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
    return nvml.built(tmp_path_factory.mktemp("nvml"))


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


class Player:
    """The real NVML binding and source on scripted GPUs at a scripted time: half a minute takes no time."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process, self._folder = process, folder

    def __call__(self, script: str, ticks: int, late_ns: list[int] | None = None) -> tuple[pa.Table, dict[str, Any]]:
        """Samples of so many ticks from 10 s on, each late by so much (over and over), and the source's account."""
        late = late_ns or [0]
        asked = {
            "script": script,
            "start_ns": 10_000_000_000,
            "late_ns": (late * (ticks // len(late) + 1))[:ticks],
            "out": str(self._folder / "rows.arrow"),
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        assert answer, "the player died"
        with pa.OSFile(asked["out"]) as file:
            return pa.ipc.open_file(file).read_all(), json.loads(answer)


@pytest.fixture(scope="module")
def play(nvml_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Player]:
    folder = tmp_path_factory.mktemp("play")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    environ |= {"LD_LIBRARY_PATH": str(nvml_library), "NVML_SCRIPT": str(folder / "gpus"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(Path(__file__).with_name("play.py"))]
    with subprocess.Popen(
        command, cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Player(process, folder)
        process.kill()


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
