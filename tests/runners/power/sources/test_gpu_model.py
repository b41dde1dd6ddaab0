"""Modelled GPU power, from utilisation by NVML or by amdgpu's files."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runners.meters import GpuModel
from runners.metrics import Mark
from runners.power.sources.gpu_model import GpuModelSource
from tests.services.instruments import Tree

ROOT = Path(__file__).parents[4]
SCRIPT = """
import json, sys
from runners.meters import GpuModel
from runners.power.sources import describe
from runners.power.sources.gpu_model import GpuModelSource
source = GpuModelSource(GpuModel(*json.loads(sys.argv[1])))
print(json.dumps({"rows": source.read(), **describe([source])}))
"""


def modelled(*options):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(options)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def codes(found):
    return [note["code"] for note in found["notes"]]


def test_a_gpu_without_power_is_modelled_from_its_use_and_said_so(gpus):
    gpus("gpus 1\nconstant 0 1\n")
    found = modelled(400, 100)
    (row,) = found["rows"]
    assert row["power_mw"] == pytest.approx(1e3 * (100 + 300 * row["utilisation_pct"] / 100))
    assert (found["mark"], codes(found)) == ("modelled", ["gpu_modelled"])
    assert "× 400 W" in found["devices"][0]["reading"]


def test_only_visible_gpus_are_modelled(gpus, monkeypatch):
    gpus("gpus 8\n" + "".join(f"constant {i} 1\n" for i in range(8)))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert len(modelled(400)["devices"]) == 1


def test_amdgpu_tells_its_use_in_a_file_and_needs_the_watts_from_people(tmp_path):
    tree = Tree(tmp_path, {"card1/device/gpu_busy_percent": "25"})
    source = GpuModelSource(GpuModel(tdp_w=300), drm=tmp_path)
    assert [row["power_mw"] for row in source.read()] == [75_000]
    assert [device.mark for device in source.devices()] == [Mark.MODELLED]
    unknown = GpuModelSource(GpuModel(), drm=tmp_path)
    assert (unknown.devices(), [note.code for note in unknown.notes]) == ([], ["gpu_model_tdp"])
    tree.close()
