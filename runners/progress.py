"""How a run tells how far it is: a bar for people, a JSON line a second for programs."""

import sys
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import Any, Protocol, TextIO

import orjson

from runners.loads import long_name

_BAR = 24


class Progress(Protocol):
    def update(self, state: dict[str, Any]) -> None:
        """Called about once a second with the fields of docs/result-files.md, "Progress"."""

    def end(self, exit_status: int, valid: bool, code: str = "", text: str = "") -> None:
        """Called once, last."""


class Reports:
    """What a run says of itself, at most once a second. ``power_w`` gives the latest reading."""

    def __init__(self, progress: Progress, stages: int) -> None:
        self.power_w: Callable[[], float | None] = lambda: None
        self._progress = progress
        self._stages = stages
        self._began_ns = monotonic_ns()
        self._next_ns = 0
        self._step = -1

    def due(self, now_ns: int) -> bool:
        return now_ns >= self._next_ns

    def say(self, phase: str, fraction: float = 0.0, *, at_once: bool = False, **more: Any) -> None:
        now_ns = monotonic_ns()
        if not at_once and not self.due(now_ns):
            return
        self._next_ns = now_ns + 1_000_000_000
        elapsed_s = (now_ns - self._began_ns) / 1e9
        state = {
            "t_s": elapsed_s,
            "phase": phase,
            "stage": 0,
            "stages": self._stages,
            "load": None,
            "planned": None,
            "sent": 0,
            "ok": 0,
            "failed": 0,
            "in_flight": 0,
            "fraction": fraction,
            "eta_s": elapsed_s * (1 - fraction) / fraction if fraction > 0.02 else None,
            "output_tokens_per_s": None,
            "ttft_ms": None,
            "power_w": self.power_w(),
        }
        self._progress.update(state | more)

    def say_ready(self, step: int) -> None:
        """That a step could begin is said at once, then again now and then."""
        self.say("wait", at_once=step != self._step, step=step)
        self._step = step


class JsonProgress:
    """One JSON object a line on standard output."""

    def __init__(self, stream: TextIO = sys.stdout) -> None:
        self._stream = stream

    def update(self, state: dict[str, Any]) -> None:
        self._write(state)

    def end(self, exit_status: int, valid: bool, code: str = "", text: str = "") -> None:
        self._write({"end": True, "exit": exit_status, "valid": valid, "code": code, "text": text})

    def _write(self, data: dict[str, Any]) -> None:
        self._stream.write(orjson.dumps(data).decode() + "\n")
        self._stream.flush()


class BarProgress:
    """A bar on standard error; a plain line every ten seconds where that is no terminal."""

    def __init__(self, stream: TextIO = sys.stderr) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._next_plain_s = 0.0

    def update(self, state: dict[str, Any]) -> None:
        if self._terminal:
            self._stream.write("\r" + bar(state) + "\033[K")
        elif state["t_s"] >= self._next_plain_s:
            self._next_plain_s = state["t_s"] + 10
            self._stream.write(bar(state) + "\n")
        self._stream.flush()

    def end(self, exit_status: int, valid: bool, code: str = "", text: str = "") -> None:
        self._stream.write("\r\033[K" if self._terminal else "")
        if text:
            self._stream.write(f"{code}: {text}\n")
        self._stream.flush()


_SUMMED = ("sent", "ok", "failed", "in_flight")


def combined(states: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The progress of several shards as that of one run: the first one's, with counts and rates added up."""
    known = [state for state in states if state]
    if not known:
        return {}

    def values(name: str) -> list[float]:
        return [state[name] for state in known if state.get(name) is not None]

    ttft_ms = sorted(values("ttft_ms"))
    slowest = min(known, key=lambda state: state["fraction"])
    planned = values("planned")
    return {
        **known[0],
        **{name: sum(values(name)) for name in _SUMMED},
        "planned": sum(planned) if len(planned) == len(known) else None,
        "output_tokens_per_s": sum(values("output_tokens_per_s")) if values("output_tokens_per_s") else None,
        "ttft_ms": ttft_ms[len(ttft_ms) // 2] if ttft_ms else None,
        "fraction": slowest["fraction"],
        "eta_s": slowest["eta_s"],
    }


def bar(state: dict[str, Any]) -> str:
    """One line for people, such as "[####....]  31 % · stage 2 of 4, concurrency 2 · 15 ok, 0 failed · 41 s left"."""
    fraction = min(1.0, max(0.0, state["fraction"]))
    filled = round(fraction * _BAR)
    parts = [f"[{'#' * filled}{'.' * (_BAR - filled)}] {fraction:4.0%}"]
    if state["phase"] in ("warmup", "measure", "drain"):
        load = state["load"]
        parts.append(f"stage {state['stage'] + 1} of {state['stages']}, {long_name(**load)}")
        parts.append(f"{state['ok']} ok, {state['failed']} failed")
    else:
        words = {
            "check": "checking the endpoint",
            "cool": "waiting for a cool start",
            "idle": "reading idle power",
            "calibrate": "calibrating",
            "wait": "waiting for all load processes",
            "summary": "adding up",
        }
        parts.append(words[state["phase"]])
    if state.get("eta_s") is not None:
        parts.append(f"{state['eta_s']:.0f} s left")
    return " · ".join(parts)
