"""The embedded engine for tests: a real llama.cpp server in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def embedded_engine(*, slots: int = 4) -> Iterator[tuple[str, str]]:
    """(url, model name) while it serves."""
    command = [sys.executable, "-m", "runners", "serve-demo", "--slots", str(slots)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        yield ready["url"], ready["model"]
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
