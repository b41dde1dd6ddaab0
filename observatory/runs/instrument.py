"""The running instrument: a child process that says each second how far it is and ends with one last line."""

import json
import os
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, cast

from django.conf import settings

from observatory.runs.models import Run
from observatory.runs.processes import kill_group, spawn
from observatory.runs.spec import API_KEY_VARIABLE
from observatory.runs.work import FILES
from runners.gate import message

#: The application's own secrets, which the instrument has no use for.
_NOT_FOR_CHILDREN = ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "FIELD_KEYS", "DATABASE_URL", "REDIS_URL")
_STOPPED_GRACE_S = 5.0
_MAX_LINE_BYTES = 1 << 20
_STDERR_TAIL_BYTES = 4096


def command(spec: Path, out: Path, kind: str) -> list[str]:
    """The instrument of that kind of run: all take the same options and speak alike. ``spec`` was put there by
    ``work.furnish``, with the files that it names beside it.
    """
    files = str(spec.parent / FILES)
    instrument = settings.QUALITY_COMMAND if kind == Run.Kind.QUALITY else settings.RUN_COMMAND
    return [*instrument, "--spec", str(spec), "--files", files, "--out", str(out), "--progress", "json"]


def _environment(api_key: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name.removesuffix("_FILE") not in _NOT_FOR_CHILDREN}
    return kept | ({API_KEY_VARIABLE: api_key} if api_key else {})


class Instrument:
    """Start it from the main thread. It dies with this process, and leaving the ``with`` block kills all of it."""

    def __init__(self, spec: Path, out: Path, api_key: str, kind: str = Run.Kind.LOAD) -> None:
        self._process = spawn(
            command(spec, out, kind),
            env=_environment(api_key),
            cwd=str(settings.BASE_DIR),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            death_signal=signal.SIGKILL,
        )
        self._selector = selectors.DefaultSelector()
        for stream in (self._process.stdout, self._process.stderr):
            assert stream  # noqa: S101
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ)
        self._line = b""
        self._stderr = b""
        self.heard_at = time.monotonic()
        self.progress: dict[str, Any] = {}
        self.end: dict[str, Any] | None = None

    @property
    def exit_status(self) -> int | None:
        """As of ``subprocess``: negative for a signal, None while it runs."""
        return self._process.poll()

    @property
    def stderr_tail(self) -> str:
        return self._stderr.decode(errors="replace").strip()

    def listen(self, seconds: float) -> bool:
        """Takes in what it says for so long. False once it has ended and everything was read."""
        ended = self.exit_status is not None  # asked first: all that it said is in the pipes by then
        while ready := self._selector.select(0 if ended else seconds):
            for key, _ in ready:
                self._read(cast(IO[bytes], key.fileobj))
            if not ended:
                break
        return not ended

    def _read(self, stream: IO[bytes]) -> None:
        data = os.read(stream.fileno(), 1 << 16)
        if not data:
            self._selector.unregister(stream)
        elif stream is self._process.stderr:
            self._stderr = (self._stderr + data)[-_STDERR_TAIL_BYTES:]
        else:
            *lines, self._line = (self._line + data).split(b"\n")
            self._line = self._line[-_MAX_LINE_BYTES:]
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            return
        if not isinstance(said, dict):
            return
        self.heard_at = time.monotonic()
        if said.get("end") is True:
            self.end = said
        else:
            self.progress = said

    def begin(self, begin_ns: int) -> None:
        """Tells a shard when its next step begins; one that has ended does not hear it."""
        assert self._process.stdin  # noqa: S101
        with suppress(OSError):
            self._process.stdin.write(message(begin_ns))
            self._process.stdin.flush()

    def stop(self, grace_s: float) -> None:
        """Asks it to put down what it has and end; after ``grace_s`` kills what is left of it."""
        self._process.terminate()
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and self.listen(0.1):
            pass
        kill_group(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(_STOPPED_GRACE_S if error else 0)
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                with suppress(OSError):
                    stream.close()
