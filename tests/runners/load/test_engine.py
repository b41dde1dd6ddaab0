"""No event of a stream is lost and each has its own stamp, however the stream goes on."""

import math
import time

import pytest

from runners.load.answer import row_of
from runners.load.arrivals import ClosedLoop, Span
from runners.load.backlog import Backlog
from runners.load.check import exchange_once
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.outcomes import Outcome
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts
from tests.services.misbehaving import Wire, good, serving

TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=0.5, idle_s=0.3, total_s=5.0)
GAP_S = 0.004
ENDS = {
    "whole": (lambda wire: wire.finish(), "ok"),
    "closed": (lambda wire: None, "truncated"),
    "reset": (lambda wire: wire.reset(), "reset"),
    "silent": (lambda wire: time.sleep(0.6), "timeout_idle"),
    "no chunk": (lambda wire: wire.raw(b"-5\r\nhello\r\n"), "protocol_error"),
    "large": (lambda wire: (wire.event({"choices": [], "pad": "x" * 300_000}), wire.finish()), "ok"),
    "split": (
        lambda wire: (wire.raw(b"5\r\nda"), time.sleep(GAP_S), wire.raw(b"ta:\r\n"), wire.chunk(b" \n\n")),
        "parse_error",
    ),
}


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("end", ENDS)
def test_no_event_of_a_stream_is_lost_and_each_has_its_own_stamp(end, count):
    finish, outcome = ENDS[end]

    def script(wire: Wire) -> None:
        wire.head()
        wire.words(*(f"{i} " for i in range(count)), pause_s=GAP_S)
        finish(wire)

    with serving({"m": script}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"))
        exchange = exchange_once(destination(base_endpoint(server.url)), TIMEOUTS, requests.build("hi", 1))
    row = row_of(exchange, requests.form, count_tokens=lambda text: len(text.split()))
    assert row["outcome"] == outcome
    assert (row["events"], row["counted_tokens"]) == (count, count)
    offsets = row["event_offsets_ns"].tolist()
    assert offsets == sorted(set(offsets))


class Following(ClosedLoop):
    follows = True


def least_wait_ms(loop: type[ClosedLoop]) -> float:
    """Of answers, for being read while others are under way."""
    waited_ms = list[float]()
    with serving({"m": good}) as server:
        request = Requests(base_endpoint(server.url), Target(server.url, "m")).build("hi", 1)

        def finished(exchange: Exchange) -> None:
            if engine.in_flight:
                waited_ms.append((time.monotonic_ns() - exchange.end_ns) / 1e6)

        engine = Engine(destination(base_endpoint(server.url)), TIMEOUTS, finished)
        engine.drive(loop(1, Span(0, requests=200)), lambda _: Exchange(request), drain_s=5)
        engine.close()
    return min(waited_ms)


def test_answers_are_read_once_those_that_end_together_have_ended_unless_they_decide_what_is_sent_next():
    assert least_wait_ms(ClosedLoop) >= 2
    assert least_wait_ms(Following) < 2


def test_answers_that_wait_to_be_read_do_not_pile_up_where_reading_is_slower_than_they_end(monkeypatch):
    monkeypatch.setattr("runners.load.backlog._MAX_WAITING", 8)
    waiting = list[int]()
    with serving({"m": good}) as server:
        request = Requests(base_endpoint(server.url), Target(server.url, "m")).build("hi", 1)

        def read(_: Exchange) -> None:
            waiting.append(len(begun) - engine.in_flight - len(waiting))
            time.sleep(0.005)

        def begin(_: bool) -> Exchange:
            begun.append(1)
            return Exchange(request)

        begun = list[int]()
        engine = Engine(destination(base_endpoint(server.url)), TIMEOUTS, read)
        engine.drive(ClosedLoop(16, Span(0, requests=300)), begin, drain_s=5)
        engine.close()
    assert len(waiting) == 300
    assert max(waiting) <= 8 + 2 * 16


def test_requests_that_begin_together_are_sent_together_once_their_connections_stand():
    finished = list[Exchange]()
    with serving({"m": good}) as server:
        request = Requests(base_endpoint(server.url), Target(server.url, "m")).build("hi", 1)
        engine = Engine(destination(base_endpoint(server.url)), TIMEOUTS, finished.append)
        engine.drive(ClosedLoop(80, Span(0, requests=80)), lambda _: Exchange(request), drain_s=5)
        engine.close()
    assert {exchange.outcome for exchange in finished} == {None}
    begun_ns = sorted(exchange.ready_ns for exchange in finished)
    sent_ns = sorted(exchange.sent_ns for exchange in finished)
    assert sent_ns[0] > begun_ns[50]
    assert all(exchange.connect_ns for exchange in finished)


def test_a_stop_sends_no_request_although_its_connection_stands():
    finished = list[Exchange]()
    with serving({"m": good}) as server:
        request = Requests(base_endpoint(server.url), Target(server.url, "m")).build("hi", 1)

        def next_exchange(warmup: bool) -> Exchange:
            begun.append(1)
            if len(begun) == 20:
                engine.stop("enough")
            return Exchange(request)

        begun = list[int]()
        engine = Engine(destination(base_endpoint(server.url)), TIMEOUTS, finished.append)
        engine.drive(ClosedLoop(20, Span(0, requests=20)), next_exchange, drain_s=5)
        engine.close()
        assert server.requests == []
    assert [(exchange.outcome, exchange.sent_ns) for exchange in finished] == [(Outcome.CANCELLED, 0)] * 20


def test_what_ended_waits_for_no_more_than_10_ms_for_what_ends_after_it():
    backlog = Backlog()
    assert backlog.read_at_ns == math.inf
    for end_ms in (5, 6, 30):
        exchange = Exchange(b"")
        exchange.end_ns = end_ms * 1_000_000
        backlog.add(exchange)
        assert backlog.read_at_ns == min(end_ms + 2, 15) * 1_000_000
    backlog.hurry = True
    assert backlog.read_at_ns == 0
