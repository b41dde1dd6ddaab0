"""Half of the traffic goes wrong in every way; the good half's numbers and the memory do not notice."""

import itertools
import resource
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from runners.load.answer import Answer
from runners.load.arrivals import ClosedLoop, OpenLoop
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts
from tests.services.misbehaving import Script, Server, Wire, json_body, serving

TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=0.5, idle_s=0.5, total_s=5.0)
TTFT_S = 0.03


def paced(wire: Wire) -> None:
    time.sleep(TTFT_S)
    wire.head()
    wire.words(*"abcd", pause_s=0.01)
    wire.finish(tokens=4)


def hangs(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    time.sleep(0.9)


def resets(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    wire.reset()


FLOOD = b"10000000\r\n" + b"data: " + b"x" * 4_300_000


def floods(wire: Wire) -> None:
    wire.head()
    wire.raw(FLOOD)


def breaks_off(wire: Wire) -> None:
    wire.head()
    wire.raw(b'40\r\ndata: {"choi')


def babbles(wire: Wire) -> None:
    wire.head()
    wire.event(b"\xff\xfe not JSON")
    wire.end()


BAD: dict[str, tuple[Script, str]] = {
    "busy": (json_body({"error": {"message": "busy"}}, "503 Busy"), "http_error"),
    "page": (json_body(b"<html>", "200 OK", "text/html"), "bad_content_type"),
    "silent": (lambda wire: time.sleep(0.9), "timeout_first_byte"),
    "hangs": (hangs, "timeout_idle"),
    "resets": (resets, "reset"),
    "floods": (floods, "too_large"),
    "breaks_off": (breaks_off, "truncated"),
    "babbles": (babbles, "decode_error"),
    "closes": (lambda wire: wire.sock.close(), "closed_early"),
    "garbage": (lambda wire: wire.raw(b"\x15\x03\x01\x00\x02\x02\x46"), "protocol_error"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"good": paced} | {name: script for name, (script, _) in BAD.items()}) as running:
        yield running


def drive(server: Server, models: list[str], count: int, concurrency: int) -> list[dict[str, Any]]:
    where = destination(base_endpoint(server.url))
    built = {name: Requests(where.endpoint, Target(server.url, name)).build("hi", 4) for name in set(models)}
    rows: list[dict[str, Any]] = []
    form = Requests(where.endpoint, Target(server.url)).form
    engine = Engine(where, TIMEOUTS, lambda exchange: rows.append(Answer(exchange, form).row()))
    turn = itertools.cycle(models)

    def next_exchange() -> Exchange:
        model = next(turn)
        return Exchange(built[model], model=model)

    try:
        engine.drive(ClosedLoop(concurrency, 0, count, None), next_exchange, drain_s=5)
    finally:
        engine.close()
    return rows


def ttft_ms(rows: list[dict[str, Any]]) -> float:
    good = [row for row in rows if row["model"] == "good"]
    return float(np.median([row["first_token_ns"] - row["sent_ns"] for row in good])) / 1e6


def test_the_good_half_keeps_its_numbers_and_each_bad_one_its_class(server):
    alone = drive(server, ["good"], 60, 4)
    mixed = drive(server, [name for bad in BAD for name in ("good", bad)], 120, 8)
    assert [row["outcome"] for row in alone] == ["ok"] * 60
    by_model = {name: {row["outcome"] for row in mixed if row["model"] == name} for name in ("good", *BAD)}
    assert by_model == {"good": {"ok"}} | {name: {outcome} for name, (_, outcome) in BAD.items()}
    assert len([row for row in mixed if row["model"] == "good"]) == 60
    assert {row["output_tokens"] for row in mixed if row["model"] == "good"} == {4}
    assert ttft_ms(mixed) == pytest.approx(ttft_ms(alone), abs=20)


def test_memory_stays_flat_over_many_bad_answers(server):
    models = [name for name in BAD if name not in ("silent", "hangs")]
    sizes_mb = []
    for _ in range(4):
        drive(server, [*models, "good"], 180, 6)
        sizes_mb.append(resident_mb())
    assert sizes_mb[-1] - sizes_mb[0] < 100, sizes_mb  # the sixty floods in between alone were 258 MB


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def test_while_a_server_is_paused_every_planned_request_waits_from_when_it_was_due():
    resumed = [0.0]

    def script(wire: Wire) -> None:
        time.sleep(max(0.0, resumed[0] - time.monotonic()))
        wire.head()
        wire.words("a")
        wire.finish(tokens=1)

    with serving({"m": script}) as server:
        where, finished = destination(base_endpoint(server.url)), list[Exchange]()
        requests = Requests(where.endpoint, Target(server.url, "m"))
        engine = Engine(where, Timeouts(5, 5, 5, 5), finished.append)
        start_ns = time.monotonic_ns() + 50_000_000
        due_ns = start_ns + np.arange(40, dtype=np.int64) * 25_000_000  # 40 a second
        resumed[0] = (start_ns + 600_000_000) / 1e9  # silent for the first 600 ms
        request = requests.build("hi", 1)
        engine.drive(OpenLoop(due_ns, 0, 100), lambda: Exchange(request), drain_s=5)
        engine.close()
    rows = [Answer(exchange, requests.form).row() for exchange in finished]
    assert len(rows) == 40
    for row in rows:
        waited_ns = row["first_token_ns"] - row["due_ns"]
        paused_ns = max(0, start_ns + 600_000_000 - row["due_ns"])
        assert row["outcome"] == "ok"
        assert waited_ns >= paused_ns
        assert row["sent_ns"] - row["due_ns"] < 100_000_000  # sent on time all the same
