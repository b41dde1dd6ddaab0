"""How exact and how cheap the load engine is, against a server of known timing: ``python -m tests.perf.measure``.

The timing server runs on one core, the tool on another. Each case is run by the C lower bound and by the engine in
turn, both before ordinary programs where the machine permits it: ratios come from one run of this script, and neither
looks cheaper for being held up, when one wake serves many reads. CPU is user + system time of the tool while the load
lasts, parsing and spooling included. "error" is the tool's 99th percentile less the server's own of that very run.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow.parquet as pq

from tests.perf import peers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


@dataclass(frozen=True)
class Case:
    name: str
    streams: int
    requests: int
    tokens: int
    ttft_ms: float
    itl_ms: float


CASES = (
    Case("a", 64, 512, 128, 50, 10),
    Case("b", 256, 1024, 256, 100, 20),
    Case("c", 512, 2048, 256, 50, 10),
    Case("d", 1024, 2048, 256, 50, 10),
)
OPEN_LOOP = ((200, 20), (2000, 10))
MEMORY = (Case("10k", 64, 10_000, 4, 10, 2), Case("100k", 64, 100_000, 4, 10, 2))
SPLIT = Case("split", 512, 2048, 256, 50, 10)


def build(folder: Path) -> None:
    subprocess.run(["cc", "-O2", "-o", folder / "lower_bound", HERE / "lower_bound.c"], check=True)


def pinned(core: int, *, first: bool = False) -> list[str]:
    """A command prefix: one core, and before all others when the machine permits it."""
    prefix = ["taskset", "-c", str(core)] if (os.cpu_count() or 1) > 1 and shutil.which("taskset") else []
    if first and subprocess.run(["chrt", "-f", "1", "true"], capture_output=True, check=False).returncode == 0:
        prefix += ["chrt", "-f", "1"]
    return prefix


@contextlib.contextmanager
def timing_server(folder: Path, case: Case) -> Iterator[tuple[int, Path]]:
    truth = folder / "truth.json"
    truth.unlink(missing_ok=True)
    command = [*pinned(1, first=True), str(ROOT / "runners/load/timing_server"), "--ttft-ms", str(case.ttft_ms)]
    command += ["--itl-ms", str(case.itl_ms), "--truth", str(truth)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield int(server.stdout.readline()), truth
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(20)


def run_lower_bound(folder: Path, case: Case, port: int) -> dict[str, Any]:
    command = [
        *pinned(0, first=True),
        str(folder / "lower_bound"),
        str(port),
        str(case.streams),
        str(case.requests),
        str(case.tokens),
    ]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout))


@contextlib.contextmanager
def busy_neighbour(core: int) -> Iterator[None]:
    """Something else that computes on the tool's core without a pause."""
    process = subprocess.Popen([*pinned(core), sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait(20)


def run_engine(folder: Path, case: Case, port: int, *load: str, cores: list[str] | None = None) -> dict[str, Any]:
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    load = load or ("--concurrency", str(case.streams), "--requests", str(case.requests))
    command = [
        *(pinned(0) if cores is None else cores),
        sys.executable,
        "-m",
        "runners",
        "bench",
        "--url",
        f"http://127.0.0.1:{port}",
        "--model",
        "timing",
    ]
    command += [
        "--out",
        str(out),
        "--power",
        "none",
        "--input-tokens",
        "16",
        "--output-tokens",
        str(case.tokens),
        *load,
    ]
    began_ns = time.monotonic_ns()
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, _, usage = os.wait4(process.pid, 0)
    summary = json.loads((out / "summary.json").read_text())
    stage = summary["stages"][0]
    sent_ns = sorted(pq.read_table(out / "requests.parquet")["sent_ns"].drop_null().to_pylist())
    metrics = stage["metrics"]
    return {
        "tokens": stage["ok"] * case.tokens,
        "cpu_s": stage["client"]["cpu_s"],
        "ttft_p99_ms": _p99(metrics["ttft_ms"]),
        "gap_p99_ms": _p99(metrics["event_gap_ms"]),
        "lag_p99_ms": _p99(metrics["lag_ms"]),
        "sent_per_s": (len(sent_ns) - 1) / (sent_ns[-1] - sent_ns[0]) * 1e9,
        "ok": stage["ok"],
        "rss_mb": usage.ru_maxrss / 1024,
        "busy_share": stage["client"]["busy_share"],
        "verdict": stage["verdict"],
        "start_s": (sent_ns[0] - began_ns) / 1e9,
        "stage": stage,
    }


def _p99(metric: dict[str, Any]) -> float:
    return float(metric["p99"] if metric["p99"] is not None else metric["max"])


Tool = tuple[str, Callable[[Path, Case, int], dict[str, Any]]]
OURS: tuple[Tool, ...] = (("lower bound", run_lower_bound), ("engine", run_engine))


def installed_peers(tokenizer: Path) -> tuple[Tool, ...]:
    """Other load generators on PATH, made alike."""

    def tool(peer: peers.Peer) -> Tool:
        def run(folder: Path, case: Case, port: int) -> dict[str, Any]:
            url, out = f"http://127.0.0.1:{port}", folder / peer.program
            load = peers.Load(url, case.streams, case.requests, case.tokens, tokenizer, out)
            return peers.run(peer, load, pinned(0))

        return peer.program, run

    return tuple(tool(peer) for peer in peers.PEERS if peer.installed)


def closed_loop_rows(
    folder: Path, cases: tuple[Case, ...], tools: tuple[Tool, ...] = OURS, *, takes: int = 1, neighbour: bool = False
) -> None:
    """Medians of ``takes``, in each of which the tools have their turns; a ratio is that of one take."""
    head = "case tool         CPU us/token  ratio  TTFT p99  error  gap p99  error  server late p99  RSS MB"
    print("with a busy neighbour on the tool's core:" if neighbour else head, "-" * len(head), sep="\n", flush=True)
    for case in cases:
        found: dict[str, list[tuple[float, ...]]] = {name: [] for name, _ in tools}
        trouble: dict[str, str] = {}
        for _ in range(takes):
            floor = 0.0
            for name, run in tools:
                try:
                    columns = _take(folder, case, run, neighbour=neighbour)
                except RuntimeError as error:
                    trouble[name] = str(error)
                    continue
                floor = floor or columns[0]
                found[name].append((columns[0], columns[0] / floor, *columns[1:]))
        for name, rows in found.items():
            if not rows:
                print(f"{case.name:4} {name:12} {trouble[name]}", flush=True)
            else:
                us, ratio, ttft, ttft_error, gap, gap_error, late, rss_mb = map(median, zip(*rows, strict=True))
                print(
                    f"{case.name:4} {name:12} {us:12.2f} {ratio:6.2f} {ttft:9.3f} {ttft_error:6.3f} {gap:8.3f} "
                    f"{gap_error:6.3f} {late:16.3f} {rss_mb:7.0f}",
                    flush=True,
                )


def _take(
    folder: Path, case: Case, run: Callable[[Path, Case, int], dict[str, Any]], *, neighbour: bool
) -> tuple[float, ...]:
    """CPU in us/token; p99 of TTFT and its error, p99 of gaps and its error, how late the server was, in ms; RSS."""
    with contextlib.ExitStack() as stack:
        port, truth_path = stack.enter_context(timing_server(folder, case))
        if neighbour:
            stack.enter_context(busy_neighbour(0))
        result = run(folder, case, port)
    truth = json.loads(truth_path.read_text())
    ttft_ms, gap_ms = result["ttft_p99_ms"], result["gap_p99_ms"]
    return (
        result["cpu_s"] * 1e6 / result["tokens"],
        ttft_ms,
        ttft_ms - truth["ttft_ms"]["p99"],
        gap_ms,
        gap_ms - truth["gap_ms"]["p99"],
        truth["late_ms"]["p99"],
        result.get("rss_mb", 0),
    )


def open_loop_rows(folder: Path) -> None:
    print("\nopen loop: asked req/s  planned  ok  achieved  lag p99 ms  verdict", flush=True)
    for rate, seconds in OPEN_LOOP:
        case = Case(f"{rate}/s", rate, rate * seconds, 8, 20, 5)
        with timing_server(folder, case) as (port, _):
            result = run_engine(folder, case, port, *_open_loop(rate, seconds))
        counts = f"{result['stage']['planned']:8} {result['ok']:4}"
        achieved = result["sent_per_s"] / rate
        print(f"{rate:22} {counts} {achieved:8.2%} {result['lag_p99_ms']:11.3f}  {result['verdict']}", flush=True)


def memory_rows(folder: Path) -> None:
    print("\nrequests  RSS MB at most  of the first  first request sent after s", flush=True)
    first_mb = 0.0
    for case in MEMORY:
        with timing_server(folder, case) as (port, _):
            result = run_engine(
                folder, case, port, "--concurrency", "64", "--requests", str(case.requests), "--calibrate", "0"
            )
        first_mb = first_mb or result["rss_mb"]
        share = f"{result['rss_mb'] / first_mb:.2f} x"
        print(f"{case.requests:8} {result['rss_mb']:15.0f} {share:>13} {result['start_s']:27.2f}", flush=True)


def split_rows(folder: Path) -> None:
    """What sharing a load costs, on all cores, which the server shares."""
    found: list[tuple[int, dict[str, Any]]] = []
    for processes in (1, 2):
        with timing_server(folder, SPLIT) as (port, _):
            load = "--concurrency", str(SPLIT.streams), "--requests", str(SPLIT.requests)
            found.append((processes, run_engine(folder, SPLIT, port, *load, "--processes", str(processes), cores=[])))
    print("", *split_lines(found), sep="\n", flush=True)


def split_lines(found: list[tuple[int, dict[str, Any]]]) -> list[str]:
    """Could hold: tokens a second with a whole core for the busiest process. Of linear: that, over as many times what
    one process could hold.
    """
    lines = ["processes  tokens/s  CPU us/token  CPU s by process  could hold tokens/s  of linear  verdict"]
    one = 0.0
    for processes, result in found:
        stage, tokens = result["stage"], result["tokens"]
        each_s = [shard["client"]["cpu_s"] for shard in stage.get("shards") or [stage]]
        hold = tokens / max(each_s)
        one = one or hold / processes
        lines.append(
            f"{processes:9} {stage['metrics']['output_tokens_per_s']['mean']:9,.0f} {sum(each_s) * 1e6 / tokens:13.2f} "
            f"{' + '.join(f'{cpu_s:.2f}' for cpu_s in each_s):>17} {hold:20,.0f} {hold / (processes * one):10.0%}  "
            f"{result['verdict']}"
        )
    return lines


def _open_loop(rate: int, seconds: int) -> tuple[str, ...]:
    return ("--rate", str(rate), "--arrivals", "constant", "--duration", str(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default="abcd", help="which closed-loop cases (default abcd)")
    parser.add_argument("--brief", action="store_true", help="the closed-loop cases alone")
    parser.add_argument("--tokenizer", type=Path, help="a folder with a tokenizer.json: with it, other load "
                        "generators on PATH (vllm, guidellm, aiperf) are run as well")  # fmt: skip
    parser.add_argument("--takes", type=int, default=3, help="of each closed-loop case; medians are told (default 3)")
    args = parser.parse_args()
    tools = OURS + (installed_peers(args.tokenizer.resolve()) if args.tokenizer else ())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        cases = tuple(case for case in CASES if case.name in args.cases)
        closed_loop_rows(folder, cases, tools, takes=args.takes)
        if args.brief:
            return
        beside = tuple(case for case in cases if case.name in "ac")
        closed_loop_rows(folder, beside, takes=args.takes, neighbour=True)
        open_loop_rows(folder)
        memory_rows(folder)
        split_rows(folder)


if __name__ == "__main__":
    main()
