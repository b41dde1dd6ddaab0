#!/usr/bin/env python3
"""Proves the power measurement on a real GPU in minutes, without network: docs/gpu-check.md.

``python3 scripts/gpu_check.py --out DIR`` starts a small server of random weights, measures it at three levels and
idle, sets the energy counter against integrated power, and kills the power sampler once. Needs Python 3.11 with torch
and transformers; what the instrument needs besides is taken from wheels/. Exit status: 0 all holds, 1 something does
not, 2 it could not be done. It ends by itself after --limit seconds, whatever hangs.
"""

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WHEELS = ROOT / "wheels"
#: Packages that the instrument needs, each with something of it.
NEEDED = ("numpy:numpy.trapezoid", "pyarrow:pyarrow.ipc", "orjson:orjson.dumps",
          "httptools:httptools.HttpResponseParser",
          "nvidia-ml-py:pynvml.nvmlDeviceGetFieldValues")  # fmt: skip
_TELL = """
import importlib, sys
for package, thing in (need.split(":") for need in sys.argv[1:]):
    module, name = thing.split(".")
    try:
        getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        print(package)
        print(error, file=sys.stderr)
"""
WARMUP_S, FAULT_S, OBSERVER_S = 4.0, 12.0, 10.0
SAMPLER_CPU_SHARE = 0.01


Look = Callable[[dict[str, Any]], None]


class Trouble(Exception):
    """Why the check cannot go on, in words."""


class Clock:
    """What is left of the time that the whole may take."""

    def __init__(self, limit_s: float) -> None:
        self._end_s = time.monotonic() + limit_s

    def within(self, seconds: float, what: str) -> float:
        left_s = self._end_s - time.monotonic()
        if left_s <= 1:
            raise Trouble(f"no time is left for {what}: raise --limit, or lower --seconds")
        return min(seconds, left_s)


def stop(process: "subprocess.Popen[Any]") -> None:
    """Its whole group: at once when it does not heed SIGTERM."""
    for number, patience_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)
            return


class Shop:
    """Starts the project's commands, with their words in files of ``out``."""

    def __init__(self, out: Path, clock: Clock) -> None:
        self.out, self.clock = out, clock
        self.environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

    def start(self, name: str, *command: str, environ: dict[str, str] | None = None) -> "subprocess.Popen[bytes]":
        with (self.out / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, *command], cwd=ROOT, env=environ or self.environ, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip

    def run(self, name: str, *command: str, limit_s: float = 60) -> tuple[int, str]:
        """(exit status, output)."""
        process = self.start(name, *command)
        try:
            output, _ = process.communicate(timeout=self.clock.within(limit_s, name))
        except subprocess.TimeoutExpired:
            raise Trouble(f"{name} took longer than {limit_s:.0f} s; its words are in {name}.log") from None
        finally:
            stop(process)
        return process.returncode, output.decode()

    def words(self, name: str) -> str:
        text = (self.out / f"{name}.log").read_text().strip()
        return text[-600:] or "it said nothing"


class Lines:
    """The lines of a process's output, each waited for with a limit."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None  # noqa: S101
        self._file = process.stdout.fileno()
        self._buffer = b""

    def next(self, limit_s: float) -> str:
        """ "" at its end or when time is up."""
        end_s = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            left_s = max(0.0, end_s - time.monotonic())
            if not select.select([self._file], [], [], left_s)[0] or not (data := os.read(self._file, 65_536)):
                return ""
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()


def add_packages(shop: Shop, folder: Path) -> None:
    """What the instrument needs and this Python lacks, from the wheels. Raises Trouble."""
    if sys.version_info < (3, 11):  # noqa: UP036 (this file runs on whatever Python a GPU host has)
        raise Trouble(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    missing = _missing(shop)
    if not missing:
        return
    if not any(WHEELS.glob("*.whl")):
        raise Trouble(f"packages are missing ({', '.join(missing)}) and {WHEELS} is empty: make gpu-wheels fills it")
    command = ("-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--find-links", str(WHEELS))
    status, _ = shop.run("pip", *command, "--target", str(folder), *missing, limit_s=180)
    if status != 0:
        raise Trouble(f"the wheels in {WHEELS} do not fit this Python: {shop.words('pip')}")
    shop.environ["PYTHONPATH"] = f"{folder}:{ROOT}"
    if missing := _missing(shop):
        raise Trouble(f"{', '.join(missing)} cannot be imported, though installed: {shop.words('packages')}")


def _missing(shop: Shop) -> list[str]:
    """Names of packages that this Python cannot import, or has in a form that is too old."""
    return shop.run("packages", "-c", _TELL, *NEEDED)[1].split()


def power_now(shop: Shop, name: str) -> dict[str, Any]:
    """What ``runners power`` finds. Raises Trouble without a GPU whose power can be read."""
    status, output = shop.run(name, "-m", "runners", "power", "--json", "--source", "nvml")
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError:
        raise Trouble(f"runners power failed with status {status}: {shop.words(name)}") from None
    (shop.out / f"{name}.json").write_text(output)
    if not found["devices"]:
        raise Trouble("no GPU can be measured: " + " ".join(note["text"] for note in found["notes"]))
    return found


@contextlib.contextmanager
def server(shop: Shop, options: argparse.Namespace) -> Iterator[tuple[str, str]]:
    """(url, model) of the server to measure: the given one, else a small one of random weights on the GPU."""
    if options.url:
        yield options.url, options.model
        return
    environ = {**os.environ, "PYTHONPATH": f"{ROOT / 'scripts'}:{ROOT}", "PYTHONUNBUFFERED": "1"}
    command = ("-m", "gpu_server", "--size", options.size, "--device", options.device, "--parent", str(os.getpid()),
               "--slots", str(max(options.levels)))  # fmt: skip
    process = shop.start("server", *command, environ=environ)
    try:
        line = Lines(process).next(shop.clock.within(180, "starting the server"))
        if not line:
            raise Trouble(f"the server did not start: {shop.words('server')}")
        ready = json.loads(line)
        (shop.out / "server.json").write_text(line)
        yield ready["url"], ready["model"]
    finally:
        stop(process)


def bench(shop: Shop, name: str, *words: str, limit_s: float, look: Look) -> dict[str, Any]:
    """The summary of a run; ``look`` sees each line of its progress. Raises Trouble when it leaves none."""
    command = ("-m", "runners", "bench", "--power", "nvml", "--progress", "json", "--no-metrics",
               "--out", str(shop.out / name), "--parent", str(os.getpid()))  # fmt: skip
    process = shop.start(name, *command, *words)
    end_s, said = time.monotonic() + shop.clock.within(limit_s, f"the run {name!r}"), {}
    lines = Lines(process)
    try:
        while line := lines.next(end_s - time.monotonic()):
            said = json.loads(line)
            look(said)
            if said.get("end"):
                break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
    finally:
        stop(process)
    if not said.get("end"):
        raise Trouble(f"the run {name!r} did not end within {limit_s:.0f} s: {shop.words(name)}")
    if not (shop.out / name / "summary.json").exists():
        raise Trouble(f"the run {name!r} left no results: {said.get('text') or shop.words(name)}")
    found: dict[str, Any] = json.loads((shop.out / name / "summary.json").read_text())
    return found


def asked(url: str, model: str, options: argparse.Namespace) -> tuple[str, ...]:
    """What both runs send."""
    warmup_s = min(WARMUP_S, options.seconds / 3)
    lengths = ("--input-tokens", str(options.input_tokens), "--output-tokens", str(options.output_tokens))
    return ("--url", url, "--model", model, *lengths, "--warmup", f"{warmup_s:g}")


def measured(shop: Shop, words: tuple[str, ...], options: argparse.Namespace) -> dict[str, Any]:
    """All levels between two looks at idle power, with the observer effect where there is time for it."""
    levels = ",".join(map(str, options.levels))
    more = ["--concurrency", levels, "--duration", f"{options.seconds:g}", "--idle", f"{options.idle:g}"]
    more += ["--observer"] if options.idle >= OBSERVER_S else []
    limit_s = len(options.levels) * (options.seconds + WARMUP_S + 30) + 4 * options.idle + 60
    return bench(shop, "run", *words, *more, limit_s=limit_s, look=lambda said: None)


def faulty(shop: Shop, words: tuple[str, ...], options: argparse.Namespace) -> "tuple[dict[str, Any], Fault]":
    """A run whose power sampler is killed amid its stage."""
    fault, seconds = Fault(shop), min(FAULT_S, 2 * options.seconds)
    level = str(options.levels[len(options.levels) // 2])
    more = ("--concurrency", level, "--duration", f"{seconds:g}", "--idle", "0", "--calibrate", "0")
    return bench(shop, "fault", *words, *more, limit_s=seconds + WARMUP_S + 60, look=fault.look), fault


class Fault:
    """Reads the update periods under load, then kills the run's power sampler; once, when it measures."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self.loaded: dict[str, Any] | None = None
        self.killed_pid: int | None = None

    def look(self, said: dict[str, Any]) -> None:
        if said.get("phase") == "measure" and self.loaded is None:
            self.loaded = power_now(self._shop, "power_loaded")
            self.killed_pid = sampler_pid(self._shop.out / "fault")
            if self.killed_pid is not None:
                os.kill(self.killed_pid, signal.SIGKILL)


def sampler_pid(folder: Path) -> int | None:
    """Of the sampler that writes into this folder."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if "runners.power.sampler" in words and any(word.startswith(f"{folder}/") for word in words):
                    return int(entry.name)
    return None


def finding(name: str, holds: bool, text: str) -> dict[str, Any]:
    return {"name": name, "holds": holds, "text": text}


def judge_devices(idle: dict[str, Any], loaded: dict[str, Any] | None) -> list[dict[str, Any]]:
    found = []
    for state, account in (("idle", idle), ("loaded", loaded)):
        for device in (account or {"devices": []})["devices"]:
            periods = device["facts"]["update_ms"]
            text = ", ".join(f"{column} {ms:g} ms" for column, ms in periods.items()) or "none could be told"
            found.append(finding(f"update periods, {state}", bool(periods), f"{device['name']}: {text}"))
    return found


def judge_stage(stage: dict[str, Any], idle_w: float | None) -> list[dict[str, Any]]:
    name, energy = f"concurrency {stage['load']['value']:g}", stage["energy"] or {}
    why = "; ".join(reason["text"] for reason in energy.get("reasons") or stage["reasons"]) or "no energy"
    watts = (stage["metrics"].get("power_w") or {}).get("mean")
    found = [
        finding(
            f"{name}: answers", stage["ok"] > 0 and not stage["failed"], f"{stage['ok']} ok, {stage['failed']} failed"
        ),
        finding(f"{name}: energy", energy.get("it_j") is not None, f"{watts:.1f} W" if watts else why),
        finding(
            f"{name}: draws more than idle", bool(watts and idle_w and watts > idle_w), f"{watts} W, idle {idle_w} W"
        ),
    ]
    for one in energy.get("instruments", []):
        ratio = "no ratio" if one["ratio"] is None else f"counter / integral = {one['ratio']:.4f}"
        found.append(finding(f"{name}: counter and integral", one["verdict"] == "agree", f"{ratio}: {one['verdict']}"))
    return found


def judge_run(summary: dict[str, Any]) -> list[dict[str, Any]]:
    power = summary["power"]
    before_w, after_w, share = power["idle_w"], power["idle_after_w"], power.get("sampler_cpu_share")
    found = [
        finding("idle power before and after", None not in (before_w, after_w), f"{before_w} W, {after_w} W"),
        finding("sampler's CPU", share is not None and share <= SAMPLER_CPU_SHARE, f"{share} of one core"),
    ]
    if summary["spec"]["power"]["observer"]:
        words = f"{power['observer_w']} W, between {power['observer_bounds_w']}"
        found.append(finding("observer effect", power["observer_w"] is not None, words))
    return found + [one for stage in summary["stages"] for one in judge_stage(stage, before_w)]


def judge_fault(summary: dict[str, Any], fault: Fault) -> list[dict[str, Any]]:
    stage = summary["stages"][0]
    codes = [reason["code"] for reason in (stage["energy"] or {}).get("reasons", [])]
    energy_j = (stage["energy"] or {}).get("it_j")
    return [
        finding("fault: the sampler was killed", fault.killed_pid is not None, f"process {fault.killed_pid}"),
        finding("fault: no energy, with its reason", energy_j is None and codes == ["sampler_lost"], f"{codes}"),
        finding("fault: the rest is kept", stage["ok"] > 0 and "ttft_ms" in stage["metrics"], f"{stage['ok']} answers"),
    ]


def check(shop: Shop, options: argparse.Namespace) -> dict[str, Any]:
    """Everything in turn. Raises Trouble."""
    idle = power_now(shop, "power_idle")
    with server(shop, options) as (url, model):
        words = asked(url, model, options)
        summary = measured(shop, words, options)
        broken, fault = faulty(shop, words, options)
    findings = judge_devices(idle, fault.loaded) + judge_run(summary) + judge_fault(broken, fault)
    return {
        "environment": summary["environment"],
        "findings": findings,
        "power": {"idle": idle, "loaded": fault.loaded},
    }


def levels(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--out", type=Path, required=True, help="an empty or new folder for check.json and all raw files"
    )
    parser.add_argument("--size", choices=("tiny", "1b", "3b", "8b"), default="1b", help="of the model (default 1b)")
    parser.add_argument("--levels", type=levels, default=[1, 16, 64], help="requests in flight (default 1,16,64)")
    parser.add_argument("--seconds", type=float, default=32, help="of each level (default %(default)s)")
    parser.add_argument("--idle", type=float, default=15, help="of each look at idle power (default %(default)s)")
    parser.add_argument("--input-tokens", type=int, default=128, help="of each prompt (default %(default)s)")
    parser.add_argument("--output-tokens", type=int, default=64, help="of each answer (default %(default)s)")
    parser.add_argument("--limit", type=float, default=540, help="seconds for the whole (default %(default)s)")
    parser.add_argument("--device", default="cuda", help="where torch puts the model (default %(default)s)")
    parser.add_argument("--url", default="", help="measure this server instead of starting one")
    parser.add_argument("--model", default="", help="its model's name")
    return parser.parse_args()


def _too_late(number: int, frame: object) -> None:
    raise Trouble("stopped" if number == signal.SIGTERM else "the whole took longer than --limit allows")


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGALRM, _too_late)
    signal.signal(signal.SIGTERM, _too_late)
    signal.alarm(int(options.limit) + 15)  # for what no other limit caught
    options.out.mkdir(parents=True, exist_ok=True)
    shop, packages = Shop(options.out.resolve(), Clock(options.limit)), Path(tempfile.mkdtemp())
    begun_s, result = time.monotonic(), {"findings": [], "trouble": ""}
    try:
        add_packages(shop, packages)
        result |= check(shop, options)
    except Trouble as trouble:
        result["trouble"] = str(trouble)
    finally:
        shutil.rmtree(packages, ignore_errors=True)
    result["seconds"] = round(time.monotonic() - begun_s, 1)
    (options.out / "check.json").write_text(json.dumps(result, indent=1))
    for one in result["findings"]:
        print(f"{'holds' if one['holds'] else 'FAILS'}  {one['name']}: {one['text']}")
    if result["trouble"]:
        print(f"the check could not be done: {result['trouble']}", file=sys.stderr)
        return 2
    print(f"{result['seconds']:.0f} s; all files are in {options.out}")
    return 0 if all(one["holds"] for one in result["findings"]) else 1


if __name__ == "__main__":
    sys.exit(main())
