"""A whole installation for one test: database, Valkey, storage and as many real Celery workers as it asks for."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import environ
from django.conf import settings
from django.db import connections

from observatory.runs.processes import kill_group, spawn
from tests.services.valkey import Valkey

ROOT = Path(__file__).resolve().parents[2]
BENCH = f"{sys.executable} -m runners bench"
STAND_IN = f"{sys.executable} -m tests.services.stand_in"


#: How many times as long things may take on a machine that runs other tests meanwhile.
_PATIENCE = 3


def wait_for(true: Callable[[], Any], seconds: float = 30, what: str = "") -> Any:
    """What ``true`` gives once it is true; ``seconds`` is how long that takes at most on an idle machine."""
    began = time.monotonic()
    while not (value := true()):
        assert time.monotonic() - began < _PATIENCE * seconds, f"waited {time.monotonic() - began:.0f} s in vain {what}"
        time.sleep(0.1)
    return value


@contextmanager
def database(url: str) -> Iterator[None]:
    """The ORM of this process on the database at ``url``."""
    options = settings.DATABASES["default"].get("OPTIONS", {}) if url.startswith("sqlite") else {}
    before = connections.settings["default"]
    config = connections.configure_settings({"default": environ.Env.db_url_config(url) | {"OPTIONS": options}})
    _use(config["default"])
    try:
        yield
    finally:
        _use(before)


def _use(config: dict[str, Any]) -> None:
    connections["default"].close()
    del connections["default"]
    connections.settings["default"] = config


class Site:
    def __init__(self, database_url: str, **variables: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="obs-"))
        self.valkey = Valkey(self.directory)
        self.ledger = self.directory / "ledger"
        self.ledger.touch()
        self.variables = {
            "VAR_DIR": str(self.directory),
            "DATABASE_URL": database_url,
            "REDIS_URL": self.valkey.url,
            "FIELD_KEYS": ",".join(settings.FIELD_KEYS),
            "SECRET_KEY": "for-tests-only" * 5,
            "PYTHONPATH": str(ROOT),
            "LEDGER": str(self.ledger),
            "RUN_COMMAND": STAND_IN,
            "RUN_HEARTBEAT_S": "1",
            "RUN_LEASE_S": "6",
            "RUN_SILENCE_S": "4",
            "RUN_STOP_GRACE_S": "3",
            "TICK_S": "1",
            **variables,
        }
        self._children: list[subprocess.Popen[bytes]] = []

    @property
    def settings(self) -> dict[str, Any]:
        """What the settings of this process must be to take part."""
        seconds = ("RUN_HEARTBEAT_S", "RUN_LEASE_S", "RUN_SILENCE_S", "RUN_STOP_GRACE_S")
        return {name: float(self.variables[name]) for name in seconds} | {
            "VAR_DIR": self.directory,
            "MEDIA_ROOT": self.directory / "media",
            "RUN_COMMAND": self.variables["RUN_COMMAND"].split(),
        }

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text()

    def start(self, name: str, *argv: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            child = spawn(
                argv,
                env=os.environ | self.variables,
                cwd=str(ROOT),
                stdout=log,
                stderr=log,
                death_signal=signal.SIGKILL,
            )
        self._children.append(child)
        return child

    def worker(self, queue: str, name: str = "", *, ready: bool = True, level: str = "INFO") -> subprocess.Popen[bytes]:
        name = name or queue
        options = ("-Q", queue, "-c", "1", "-n", f"{name}@test", "-l", level, "--without-gossip", "--without-mingle")
        child = self.start(name, sys.executable, "-m", "celery", "-A", "observatory", "worker", *options)
        if ready:
            wait_for(lambda: f"{name}@test ready" in self.log(name) or child.poll() is not None, 60)
        return child

    def beat(self, name: str = "beat") -> subprocess.Popen[bytes]:
        options = ("--pidfile=", "-l", "INFO")
        return self.start(name, sys.executable, "-m", "celery", "-A", "observatory", "beat", *options)

    def sent(self) -> list[str]:
        """A line for each request that an instrument sent."""
        return self.ledger.read_text().splitlines()

    def close(self) -> None:
        for child in reversed(self._children):
            kill_group(child)
        self.valkey.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
