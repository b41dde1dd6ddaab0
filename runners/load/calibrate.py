"""Before a run: the engine drives a server of known timing on this host at the run's own loads, and keeps its error.

What comes out limits what may be claimed: an error of a millisecond is nothing beside a TTFT of a second and everything
beside a gap of two.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic_ns, process_time
from typing import Any

import numpy as np
import orjson

from runners.load.answer import Answer
from runners.load.arrivals import ClosedLoop, OpenLoop, Pacing, Span, Times, schedule_ns
from runners.load.dialects import form
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.garbage import no_collection
from runners.load.statistics import distribution
from runners.load.target import base_endpoint, destination
from runners.load.transport import Destination
from runners.spec import Arrivals, Dialect, Timeouts

_TTFT_MS, _ITL_MS = 20.0, 10.0
_CLOSED_TOKENS, _OPEN_TOKENS = 32, 8
_TIMEOUTS = Timeouts(connect_s=5.0, first_byte_s=10.0, idle_s=10.0, total_s=30.0)
_END_TIMEOUT_S = 20.0
_SERVER = Path(__file__).with_name("timing_server")
_MAX_LEVEL, _MAX_SECONDS = 10_000, 60


@dataclass(frozen=True)
class Calibration:
    """The client's own error at one load. Errors are stamps of the client less those of the reference, in ms:
    {p50, p90, p95, p99, min, max, mean, n, ...}, percentiles null where the sample is too small for them.
    """

    kind: str
    value: float
    events_per_s: float
    ttft_error_ms: dict[str, Any] | None
    event_error_ms: dict[str, Any] | None
    lag_ms: dict[str, Any] | None
    busy_share: float
    cpu_us_per_event: float


@contextmanager
def _timing_server() -> Iterator[Destination]:
    command = (str(_SERVER), "--ttft-ms", str(_TTFT_MS), "--itl-ms", str(_ITL_MS), "--ends-with-input", "1")
    try:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise RuntimeError(f"the timing server of calibrations is missing, run make install: {error}") from None
    assert process.stdin is not None  # noqa: S101
    assert process.stdout is not None  # noqa: S101
    try:
        port = int(process.stdout.readline())
        yield destination(base_endpoint(f"http://127.0.0.1:{port}"))
    finally:
        process.stdin.close()
        process.stdout.close()
        try:
            process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def calibrate(
    arrivals: Arrivals, levels: Sequence[float], seconds: float, on_tick: Callable[[int], None] | None = None
) -> list[Calibration]:
    """One calibration a level, ``seconds`` each; ``on_tick`` may raise to give up."""
    with _timing_server() as where:
        return [_level(where, arrivals, level, seconds, on_tick) for level in levels]


def _request(where: Destination, tokens: int) -> bytes:
    body = orjson.dumps({"max_tokens": tokens})
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {where.endpoint.authority}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _level(
    where: Destination, arrivals: Arrivals, level: float, seconds: float, on_tick: Callable[[int], None] | None
) -> Calibration:
    closed = arrivals is Arrivals.CLOSED
    tokens = _CLOSED_TOKENS if closed else _OPEN_TOKENS
    request, finished = _request(where, tokens), list[Exchange]()
    offsets_ns = None if closed else schedule_ns(arrivals, level, Times(duration_s=seconds), 0)
    engine = Engine(where, _TIMEOUTS, finished.append)
    try:
        with no_collection():
            began_ns, cpu_s = monotonic_ns(), process_time()
            span = Span(0, end_ns=began_ns + round(seconds * 1e9))
            pacing: Pacing = (
                ClosedLoop(int(level), span) if offsets_ns is None else OpenLoop(began_ns + offsets_ns, span, 65_536)
            )
            engine.drive(pacing, lambda _: Exchange(request), drain_s=_TIMEOUTS.total_s, on_tick=on_tick)
    finally:
        engine.close()
    wall_s = (monotonic_ns() - began_ns) / 1e9
    busy_share = max(0.0, 1 - engine.asleep_ns / 1e9 / wall_s)
    return _errors(arrivals, level, finished, wall_s, busy_share, process_time() - cpu_s)


def _errors(
    arrivals: Arrivals, level: float, finished: list[Exchange], wall_s: float, busy_share: float, cpu_s: float
) -> Calibration:
    ttft_ns, event_ns, lag_ns = list[int](), list[int](), list[int]()
    for exchange in finished:
        said = Answer(exchange, form(Dialect.OPENAI_CHAT)).said
        stamps = said.stamps_ns
        if not stamps:
            continue
        arrival, *sent = map(int, said.answer_text.split())
        ttft_ns.append((stamps[0] - exchange.sent_ns) - (sent[0] - arrival))
        event_ns += [stamp - truth for stamp, truth in zip(stamps, sent, strict=True)]
        lag_ns.append(exchange.sent_ns - exchange.due_ns - (exchange.connect_ns or 0))
    return Calibration(
        kind="concurrency" if arrivals is Arrivals.CLOSED else "rate",
        value=level,
        events_per_s=len(event_ns) / wall_s,
        ttft_error_ms=_in_ms(ttft_ns),
        event_error_ms=_in_ms(event_ns),
        lag_ms=_in_ms(lag_ns),
        busy_share=busy_share,
        cpu_us_per_event=cpu_s * 1e6 / max(len(event_ns), 1),
    )


def _in_ms(values_ns: list[int]) -> dict[str, Any] | None:
    return distribution(np.array(values_ns, dtype=np.float64) / 1e6)


# command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--concurrency", default="1,16,64,256", metavar="1,16", help="levels (default %(default)s)")
    parser.add_argument("--rate", metavar="50,200", help="requests per second instead of concurrency")
    parser.add_argument("--seconds", type=float, default=2.0, help="per level (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """0, or 2 for levels that are not numbers."""
    try:
        levels = [float(part) for part in (args.rate or args.concurrency).split(",")]
        if not all(0 < level <= _MAX_LEVEL for level in levels) or not 0 < args.seconds <= _MAX_SECONDS:
            raise ValueError
    except ValueError:
        print(
            f"levels must be numbers such as 1,16,64 up to {_MAX_LEVEL}, seconds above 0 up to {_MAX_SECONDS}",
            file=sys.stderr,
        )
        return 2
    found = calibrate(Arrivals.CONSTANT if args.rate else Arrivals.CLOSED, levels, args.seconds)
    if args.json:
        print(orjson.dumps([asdict(item) for item in found], option=orjson.OPT_INDENT_2).decode())
        return 0
    print("load         events/s  TTFT error p50     p99  event error p50    p99    max (ms)  busy  CPU us/event")
    for item in found:
        name = f"c={item.value:g}" if item.kind == "concurrency" else f"{item.value:g}/s"
        ttft, event = item.ttft_error_ms or {}, item.event_error_ms or {}
        print(
            f"{name:10} {item.events_per_s:10.0f} {_shown(ttft, 'p50'):>15} {_shown(ttft, 'p99'):>7} "
            f"{_shown(event, 'p50'):>16} {_shown(event, 'p99'):>6} {_shown(event, 'max'):>6} "
            f"{item.busy_share:10.0%} {item.cpu_us_per_event:13.1f}"
        )
    return 0


def _shown(error: dict[str, Any], name: str) -> str:
    value = error.get(name)
    return "few" if value is None else f"{value:.3f}"
