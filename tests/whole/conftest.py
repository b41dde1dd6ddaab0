"""A whole installation, started with the one command that people use, in a folder of its own."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from observatory.runs.processes import kill_group, spawn
from tests.browser import chromium

__all__ = ["chromium"]

ROOT = Path(__file__).resolve().parents[2]


class Installation:
    """Its address, its first user, and its API with a token of that user."""

    def __init__(self, folder: Path) -> None:
        self.environment = {**os.environ, "VAR_DIR": str(folder), "TICK_S": "2"}
        self._log = folder / "serve.log"
        with self._log.open("wb") as log:
            self._process = spawn(
                [sys.executable, "manage.py", "serve", "--port", "8600"],
                cwd=str(ROOT), env=self.environment, stdout=log, stderr=log, death_signal=signal.SIGKILL,
            )  # fmt: skip

    def await_ready(self) -> None:
        folder = self._log.parent
        self.address = self._wait_for_address()
        self.password = (folder / "admin_password").read_text().strip()
        self._token = self.manage("token", "admin", "tests").split()[-1]
        self.endpoint = self.api("GET", "/endpoints")["items"][0]
        self.deployment = self.api("GET", "/deployments")["items"][0]

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        return subprocess.run(
            command, cwd=ROOT, env=self.environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """JSON in and out; an error answer has its status under "http"."""
        request = urllib.request.Request(
            f"{self.address}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                text = answer.read()
        except urllib.error.HTTPError as error:
            return {**json.loads(error.read()), "http": error.code}
        return json.loads(text) if answer.headers["Content-Type"].startswith("application/json") else text.decode()

    def ended(self, run_id: int, within_s: float = 120) -> Any:
        """The run when it has ended."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            run = self.api("GET", f"/runs/{run_id}")
            if run["status"] not in ("queued", "running"):
                return run
            time.sleep(0.5)
        raise AssertionError(f"run {run_id} did not end: {run['status']} {run['progress']}")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGINT)
        try:
            assert self._process.wait(40) == 0, self._log.read_text()
        finally:
            if self._process.poll() is None:
                kill_group(self._process)

    def _wait_for_address(self) -> str:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self._process.poll() is None:
            for word in self._log.read_text().split():
                if word.startswith("http://127.0.0.1:"):
                    return word.rstrip("/")
            time.sleep(0.2)
        raise AssertionError(self._log.read_text())


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    started = Installation(tmp_path_factory.mktemp("installation"))
    try:
        started.await_ready()
        yield started
    finally:
        started.stop()
