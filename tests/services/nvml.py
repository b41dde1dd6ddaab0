"""The library of scripted GPUs (tests/native/fake_nvml.c), built."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "native/fake_nvml.c"


def built(folder: Path) -> Path:
    """``folder`` with a libnvidia-ml.so.1 that plays the GPUs of the script named by NVML_SCRIPT; skips without gcc."""
    compiler = shutil.which("gcc")
    if compiler is None:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("gcc is needed for the scripted GPUs: apt install gcc libc6-dev")
        pytest.skip("needs gcc: apt install gcc libc6-dev")
    library = folder / "libnvidia-ml.so.1"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    command = [compiler, *flags, "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library), str(SOURCE), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return folder
