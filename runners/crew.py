"""``--processes N``: one run by several processes on this host, each with its share and no queue between them."""

import os
import selectors
import signal
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from time import monotonic, monotonic_ns
from types import FrameType
from typing import IO, Any, cast

import orjson

import runners
from runners.exits import Exit
from runners.gate import message
from runners.load.judgement import reason
from runners.merge import Part, merge
from runners.progress import Progress, combined
from runners.results import write_failure
from runners.spec import RunSpec

#: Between the message and the moment it names: time to read the server's page once more, and to wake.
LEAD_NS = 1_500_000_000
_STOP_S = 30.0
_LOOK_S = 0.2


class _Member:
    """One shard's process."""

    def __init__(self, spec: RunSpec, index: int, folder: Path) -> None:
        folder.mkdir()
        (folder / "spec.json").write_bytes(
            orjson.dumps(replace(spec, shard=replace(spec.shard, index=index)).to_json())
        )
        self.index = index
        self.folder = folder
        self.said: dict[str, Any] = {}
        self.end: dict[str, Any] = {}
        self.stopped = False
        self._line = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the process)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "runners", "bench", "--spec", str(folder / "spec.json"), "--out", str(folder),
             "--files", str(Path.cwd()), "--progress", "json", "--parent", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=Path(runners.__file__).parents[1],
        )  # fmt: skip

    @property
    def waits_for(self) -> int | None:
        """The step that it is ready to begin."""
        return self.said.get("step") if self.said.get("phase") == "wait" else None

    def read(self) -> bool:
        """Takes in what it says; False at its end."""
        data = os.read(cast(IO[bytes], self.process.stdout).fileno(), 1 << 16)
        *lines, self._line = (self._line + data).split(b"\n")
        for line in filter(None, lines):
            said = orjson.loads(line)
            if said.get("end"):
                self.end = said
            else:
                self.said = said
        return bool(data)

    def begin(self, begin_ns: int) -> None:
        stdin = cast(IO[bytes], self.process.stdin)
        try:
            stdin.write(message(begin_ns))
            stdin.flush()
        except OSError:
            return  # it has ended; that is noticed where its output ends

    def stop(self) -> None:
        if self.process.poll() is None:
            self.stopped = True
            self.process.terminate()

    def fault(self) -> dict[str, str] | None:
        """Why it did not reach its end by itself."""
        status = self.process.returncode
        if self.stopped and status < 0:  # before it could put anything down
            return reason("interrupted", f"load process {self.index} was stopped")
        if status in (Exit.VALID, Exit.INVALID) and self.end.get("code", "") in ("", "invalid"):
            return None
        if self.end:
            return reason(self.end["code"], f"load process {self.index}: {self.end['text']}")
        how = f"by signal {-status}" if status < 0 else f"with status {status}"
        self._errors.seek(0)
        last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        return reason("shard_lost", f"load process {self.index} ended {how}; the rows of all are kept. {last}".strip())


class Crew:
    """Runs a split specification. ``run`` returns the exit status; the results of all are in ``out``."""

    def __init__(self, spec: RunSpec, out: Path, progress: Progress) -> None:
        self.spec = spec
        self.summary: dict[str, Any] | None = None
        self._out = out
        self._progress = progress
        self._members: list[_Member] = []
        self._step = 0
        self._stop = ""
        self._kill_at_s = float("inf")

    def run(self) -> Exit:
        previous = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        folder = self._out / "shards"
        rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            self._members = [_Member(self.spec, i, folder / str(i)) for i in range(self.spec.shard.count)]
            self._follow()
            status, code, text = self._finish()
        finally:
            for member in self._members:
                member.process.kill()
                member.process.wait()
            for number, handler in previous.items():
                signal.signal(number, handler)
        self._progress.end(status, status == Exit.VALID, code, text)
        return status

    def _follow(self) -> None:
        """Until every process has ended: tells them when to begin, and stops all when one is gone."""
        with selectors.DefaultSelector() as selector:
            for member in self._members:
                selector.register(cast(IO[bytes], member.process.stdout), selectors.EVENT_READ, member)
            next_report_s = 0.0
            while selector.get_map():
                for key, _ in selector.select(_LOOK_S):
                    if not key.data.read():
                        selector.unregister(key.fileobj)
                        key.data.process.wait()
                        self._judge(key.data)
                self._release()
                if monotonic() >= next_report_s:
                    next_report_s = monotonic() + 1
                    if state := combined([member.said for member in self._members]):
                        self._progress.update(state)
                if monotonic() > self._kill_at_s:
                    for member in self._members:
                        member.process.kill()

    def _release(self) -> None:
        if all(member.waits_for == self._step for member in self._members) and not self._stop:
            self._step += 1
            begin_ns = monotonic_ns() + LEAD_NS
            for member in self._members:
                member.begin(begin_ns)

    def _judge(self, member: _Member) -> None:
        """A process that ended although others still measure leaves a load that nobody asked for: all are stopped."""
        if member.fault() is not None:
            self._end(member.end.get("code") or "shard_lost")

    def _end(self, why: str) -> None:
        if not self._stop:
            self._stop = why
            self._kill_at_s = monotonic() + _STOP_S
            for member in self._members:
                member.stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._end("interrupted")

    def _finish(self) -> tuple[Exit, str, str]:
        faults = {member.index: member.fault() for member in self._members}
        own = [fault for fault in faults.values() if fault and fault["code"] != "interrupted"]
        if self._stop != "interrupted":  # those that were stopped because another one failed have no fault of their own
            faults = {index: fault if fault in own else None for index, fault in faults.items()}
        statuses = {member.process.returncode for member in self._members}
        if Exit.UNUSABLE in statuses or Exit.USAGE in statuses:
            status = Exit.USAGE if Exit.USAGE in statuses else Exit.UNUSABLE
            return status, own[0]["code"], own[0]["text"]
        parts = [Part(member.index, member.folder, fault=faults[member.index]) for member in self._members]
        try:
            self.summary = merge(self.spec, parts, self._out)
        except OSError as error:
            return Exit.INVALID, *write_failure(error, self._out)
        rmtree(self._out / "shards")
        if self._stop == "interrupted":
            return Exit.INTERRUPTED, "interrupted", f"stopped; what was measured is kept in {self._out}"
        if not self.summary["valid"]:
            return Exit.INVALID, "invalid", "; ".join(item["text"] for item in self.summary["reasons"])
        return Exit.VALID, "", ""
