"""Accelerators as the environment account names them, through the real NVML binding."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def environment():
    script = "import json; from runners.environment import environment; print(json.dumps(environment()))"
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_gpus_and_driver_are_named(gpus):
    gpus("gpus 2\ndriver 575.51\nunsupported 1 memory\n")
    facts = environment()
    assert facts["driver"] == "575.51"
    assert facts["accelerators"] == [
        {"name": "NVIDIA H200", "uuid": "GPU-00000000-0000-0000-0000-000000000000", "memory_gb": 141.0},
        {"name": "NVIDIA H200", "uuid": "GPU-00000001-0000-0000-0000-000000000000", "memory_gb": None},
    ]


def test_a_driver_that_does_not_answer_is_no_error(gpus):
    gpus("init 999\n")
    facts = environment()
    assert (facts["accelerators"], facts["driver"]) == ([], None)
