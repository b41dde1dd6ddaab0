"""The embedded engine, a real llama.cpp server with a small model, and what it counts itself."""

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from observatory.runs.processes import kill_group, spawn

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def embedded_engine(directory: Path, *options: str) -> Iterator[str]:
    """Its base address."""
    log = directory / "engine.log"
    with log.open("wb") as stream:
        process = spawn(
            [sys.executable, "-m", "runners", "engine", "llama.cpp", *options],
            env={"PATH": "/usr/bin:/bin", "HOME": str(directory)},
            cwd=str(ROOT),
            stdout=stream,
            stderr=subprocess.STDOUT,
            death_signal=signal.SIGKILL,
        )
    try:
        yield _address(log, process)
    finally:
        kill_group(process)


def _address(log: Path, process: "subprocess.Popen[bytes]") -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text(errors="replace").splitlines():
            if line.startswith('{"ready"'):
                return str(json.loads(line)["url"])
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace"))


def counted(url: str, name: str) -> float:
    """A counter of the engine's own, such as ``tokens_predicted_total``."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as response:
        found = re.search(rf"^llamacpp:{name} (\S+)$", response.read().decode(), re.MULTILINE)
    assert found
    return float(found.group(1))
