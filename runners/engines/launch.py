"""Starting an engine for a measurement, and ending it with everything that it started."""

import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from runners.engines import commands
from runners.engines.guard import GRACE_S
from runners.engines.recipe import Recipe, SpecError

HOST = "127.0.0.1"
_LOOK_S = 0.2
_ANSWER_S = 5.0
_TAIL_LINES = 20
_TAIL_BYTES = 8192
_CAUSES, _CAUSES_BYTES = 3, 1 << 20
#: An exception of Python as it ends a traceback, such as "pkg.SomeError: words", whatever a logger put before it.
_EXCEPTION = re.compile(r"(?:^|\s)((?:\w+\.)*[A-Z]\w*(?:Error|Exception): .+)$")


class EngineError(RuntimeError):
    """The engine did not start, or has ended; the message holds its own last words and what to do."""


@dataclass(frozen=True)
class RunningEngine:
    """``command``: exactly what was started, ``environment`` what was added for it. ``model_files``: checksums of
    those that were made for it. ``start_s``: until it answered."""

    recipe: Recipe
    url: str
    model: str
    version: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    model_files: tuple[str, ...]
    start_s: float
    log: Path
    process: "subprocess.Popen[bytes]"

    @property
    def metrics_url(self) -> str:
        return f"{self.url}/metrics"

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        """Ends it with everything that it started; harmless where that has happened."""
        _end(self.process)

    def log_tail(self) -> str:
        return tail(self.log)

    def facts(self) -> dict[str, Any]:
        """What is kept of it with a run, in plain JSON."""
        return {
            "engine": self.recipe.engine.value,
            "version": self.version,
            "model": self.model,
            "command": shlex.join(self.command),
            "environment": dict(self.environment),
            "model_files": list(self.model_files),
            "recipe": self.recipe.to_json(),
            "start_s": round(self.start_s, 3),
            "log_tail": self.log_tail(),
        }


def tail(log: Path) -> str:
    """The last lines of a log; empty where there is none."""
    with suppress(OSError), log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return "\n".join(file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]).strip()
    return ""


def causes(log: Path) -> list[str]:
    """The exceptions that a log tells of, earliest first, each once: an engine of several processes ends long after
    the words that say why.
    """
    with suppress(OSError), log.open("rb") as file:
        lines = file.read(_CAUSES_BYTES).decode(errors="replace").splitlines()
        found = dict.fromkeys(match[1] for line in lines if (match := _EXCEPTION.search(line)))
        return list(found)[:_CAUSES]
    return []


@contextmanager
def launch(
    recipe: Recipe, log: Path | None = None, tell: commands.Tell = lambda words: None, port: int = 0
) -> Iterator[RunningEngine]:
    """The engine, ready to answer on a loopback port; ends with the block, and with this process however that ends.

    ``tell`` hears several times a second what goes on; what it raises ends the start. ``log``: where all that it
    says goes; else a file that goes with it. Raises EngineError, SpecError.
    """
    recipe.check()
    with tempfile.TemporaryDirectory() as folder:
        kept = log or Path(folder) / "engine.log"
        plan = commands.plan(recipe, HOST, port or free_port(), tell)
        process = _guarded(plan, recipe, kept)
        try:
            yield _ready(recipe, plan, process, kept, tell)
        finally:
            _end(process)


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def _guarded(plan: commands.Plan, recipe: Recipe, log: Path) -> "subprocess.Popen[bytes]":
    missing = [core for core in recipe.cores if core >= (os.cpu_count() or 1)]
    if missing:
        raise SpecError(f"recipe.cores: this machine has no core {missing[0]}; it has {os.cpu_count()}, counted from 0")
    cores = ["--cores", ",".join(map(str, recipe.cores))] if recipe.cores else []
    with log.open("ab") as stream:
        return subprocess.Popen(
            [sys.executable, "-m", "runners.engines.guard", *cores, "--", *plan.command],
            env=plan.environment_of_process(),
            cwd=Path(__file__).resolve().parents[2],
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Lets go of the guard, which ends the engine."""
    assert process.stdin  # noqa: S101
    process.stdin.close()
    try:
        process.wait(3 * GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _ready(
    recipe: Recipe, plan: commands.Plan, process: "subprocess.Popen[bytes]", log: Path, tell: commands.Tell
) -> RunningEngine:
    began_s = time.monotonic()
    url = f"http://{HOST}:{plan.port}"
    session = requests.Session()
    session.trust_env = False
    with session:
        while not _answers(session, url):
            waited_s = time.monotonic() - began_s
            if process.poll() is not None:
                raise EngineError(_last_words(f"{recipe.engine.value} ended with status {process.returncode}", log))
            if waited_s > recipe.ready_s:
                words = f"{recipe.engine.value} was not ready within {recipe.ready_s:g} seconds"
                raise EngineError(_last_words(words, log) + "\nGive it longer with ready_s, or a smaller model.")
            tell(f"starting {recipe.engine.value}, {waited_s:.0f} s")
            time.sleep(_LOOK_S)
        start_s = time.monotonic() - began_s
        model, version = _model(session, url) or recipe.served_name, plan.version or _version(session, url)
    return RunningEngine(recipe, url, model, version, plan.command, plan.environment, plan.files, start_s, log, process)


def _last_words(what: str, log: Path) -> str:
    said = tail(log)
    first = [cause for cause in causes(log) if cause not in said]
    why = " What it complained of first:\n" + "\n".join(first) + "\n" if first else " "
    return f"{what}.{why}Its last words:\n{said}" if said else f"{what} and said nothing."


def _answers(session: requests.Session, url: str) -> bool:
    """Whether it is ready: its health page says so, or where it has none, it lists its models."""
    try:
        status = session.get(f"{url}/health", timeout=_ANSWER_S).status_code
        return status == 200 or (status == 404 and session.get(f"{url}/v1/models", timeout=_ANSWER_S).ok)
    except requests.RequestException:
        return False


def _json(session: requests.Session, url: str) -> Any:
    try:
        return session.get(url, timeout=_ANSWER_S).json()
    except (requests.RequestException, ValueError):
        return None


def _model(session: requests.Session, url: str) -> str:
    listed = _json(session, f"{url}/v1/models")
    try:
        return str(listed["data"][0]["id"])
    except (TypeError, KeyError, IndexError):
        return ""


def _version(session: requests.Session, url: str) -> str:
    found = _json(session, f"{url}/version")
    return str(found.get("version") or "") if isinstance(found, dict) else ""
