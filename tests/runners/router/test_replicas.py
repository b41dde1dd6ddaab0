"""Replicas behind a router: who is asked, that bytes are passed on at once, and what a death does."""

import http.client
import json
import re
import socket
import threading
import time
import urllib.error
from collections.abc import Callable
from typing import Any

import pytest

from tests.runners.router.asking import MODEL, ask, body, dead, in_background, metrics, post
from tests.services.misbehaving import Server, Wire, good


class Gate:
    """A script that answers once it is let through."""

    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, wire: Wire) -> None:
        self.entered.set()
        assert self.open.wait(10)
        good(wire)


def asked(servers: list[Server]) -> list[int]:
    return [len(server.requests) for server in servers]


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def raw(url: str, version: str, headers: str = "") -> bytes:
    """All that the router sends until it closes."""
    host, _, port = url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        head = f"POST /v1/chat/completions HTTP/{version}\r\nContent-Length: {len(body())}\r\n{headers}\r\n"
        client.sendall(head.encode() + body())
        return b"".join(iter(lambda: client.recv(65536), b""))


def count(page: str, name: str, labels: str) -> int:
    found = re.search(rf"^{name}{{{re.escape(labels)}}} (\d+)$", page, re.M)
    assert found, page
    return int(found[1])


def test_round_robin_takes_turns_and_says_so(servers, router) -> None:
    two = servers(good, good)
    url = router(*(server.url for server in two))
    answers = {ask(url, f"prompt {number}") for number in range(6)}
    assert asked(two) == [3, 3]
    assert len(answers) == 1
    assert answers.pop().endswith("data: [DONE]\n\n")
    page = metrics(url)
    assert [count(page, "router_requests_total", f'upstream="{index}"') for index in (0, 1)] == [3, 3]
    assert count(page, "router_decisions_total", 'policy="round-robin",decision="turn"') == 6


def test_connections_to_an_upstream_are_kept(servers, router) -> None:
    (one,) = servers(good)
    url = router(one.url)
    for _ in range(5):
        ask(url)
    assert (len(one.requests), one.connections) == (5, 1)


def test_least_outstanding_passes_the_busy_replica_by(servers, router) -> None:
    gate = Gate()
    two = servers(gate, good)
    url = router(*(server.url for server in two), policy="least-outstanding")
    held = in_background(lambda: ask(url))
    assert gate.entered.wait(10)
    for _ in range(3):
        ask(url)
    assert asked(two) == [1, 3]
    assert count(metrics(url), "router_in_flight", 'upstream="0"') == 1
    gate.open.set()
    held.join(10)
    page = metrics(url)
    assert count(page, "router_in_flight", 'upstream="0"') == 0
    assert count(page, "router_decisions_total", 'policy="least-outstanding",decision="least"') == 3


def test_prompts_that_begin_alike_stay_together(servers, router) -> None:
    two = servers(good, good)
    url = router(*(server.url for server in two), policy="prefix-affinity", prefix_bytes=8)
    homes = []
    for prefix in range(12):
        before = asked(two)
        for rest in ("one", "two", "three"):
            ask(url, f"prefix{prefix:02d} {rest}")
        homes.append([after - earlier for after, earlier in zip(asked(two), before, strict=True)])
    assert all(sorted(home) == [0, 3] for home in homes)
    assert [3, 0] in homes
    assert [0, 3] in homes


def test_an_overloaded_home_is_passed_by(servers, router) -> None:
    gates = Gate(), Gate()
    two = servers(*gates)
    url = router(*(server.url for server in two), policy="prefix-affinity", overload=2)
    threads = []
    for number in range(3):
        threads.append(in_background(lambda: ask(url, "the same")))
        until(lambda number=number: sum(asked(two)) == number + 1)
    assert sorted(asked(two)) == [1, 2]
    page = metrics(url)
    assert count(page, "router_decisions_total", 'policy="prefix-affinity",decision="home"') == 2
    assert count(page, "router_decisions_total", 'policy="prefix-affinity",decision="overloaded"') == 1
    for gate in gates:
        gate.open.set()
    for thread in threads:
        thread.join(10)


def test_the_first_event_is_there_before_the_last_is_sent(servers, router) -> None:
    seen = threading.Event()

    def waits(wire: Wire) -> None:
        wire.head()
        wire.words("first")
        assert seen.wait(10)
        wire.words("last")
        wire.finish()

    (one,) = servers(waits)
    with post(router(one.url), body()) as answer:
        assert b"first" in answer.readline()
        seen.set()
        assert b"last" in answer.read()


def test_the_next_replica_is_asked_where_nothing_was_sent(servers, router) -> None:
    def dies(wire: Wire) -> None:
        wire.reset()

    first, second = servers(dies, good)
    url = router(first.url, second.url, dead())
    for _ in range(3):
        assert "[DONE]" in ask(url)
    assert len(second.requests) == 3
    page = metrics(url)
    assert count(page, "router_failures_total", 'upstream="0"') >= 1
    assert count(page, "router_failures_total", 'upstream="2"') >= 1


def test_without_any_replica_the_answer_is_502_with_the_reason(servers, router) -> None:
    def dies(wire: Wire) -> None:
        wire.reset()

    (first,) = servers(dies)
    url = router(first.url, dead())
    with pytest.raises(urllib.error.HTTPError) as failed:
        ask(url)
    assert failed.value.code == 502
    words = json.load(failed.value)["error"]["message"]
    assert "0 closed the connection before it answered" in words
    assert "1 cannot be reached" in words


def test_an_answer_that_breaks_off_is_never_made_whole_by_another(servers, router) -> None:
    def breaks(wire: Wire) -> None:
        wire.head()
        wire.words("a")
        time.sleep(0.1)
        wire.reset()

    first, second = servers(breaks, good)
    url = router(first.url, second.url)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        ask(url)
    assert second.requests == []
    assert count(metrics(url), "router_broken_total", 'upstream="0"') == 1


def test_a_client_that_leaves_ends_the_work_of_the_upstream(servers, router) -> None:
    left = threading.Event()

    def talks(wire: Wire) -> None:
        wire.head()
        try:
            for _ in range(500):
                wire.words("a", pause_s=0.02)
        except OSError:
            left.set()
            raise

    (one,) = servers(talks)
    with post(router(one.url), body()) as answer:
        answer.readline()
    assert left.wait(10)


def test_what_an_upstream_ends_by_closing_is_whole(servers, router) -> None:
    def closes(wire: Wire) -> None:
        wire.head("Connection: close", chunked=False)
        wire.raw(b"data: all of it\n\n")
        wire.sock.close()

    (one,) = servers(closes)
    assert ask(router(one.url)) == "data: all of it\n\n"


def test_what_an_upstream_ends_by_a_reset_does_not_look_whole(servers, router) -> None:
    def resets(wire: Wire) -> None:
        wire.head("Connection: close", chunked=False)
        wire.raw(b"data: a part")
        time.sleep(0.1)
        wire.reset()

    (one,) = servers(resets)
    with pytest.raises(ConnectionError):
        ask(router(one.url))


def test_more_than_was_announced_is_not_taken_for_the_next_answer(servers, router) -> None:
    def rambles(wire: Wire) -> None:
        wire.head("Content-Length: 4", chunked=False)
        wire.raw(b"wholeHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")

    (one,) = servers(rambles)
    url = router(one.url)
    assert [ask(url), ask(url)] == ["whol", "whol"]
    assert one.connections == 2


def test_a_connection_that_was_closed_while_it_lay_idle_costs_no_request(servers, router) -> None:
    def leaves(wire: Wire) -> None:
        good(wire)
        wire.sock.shutdown(socket.SHUT_RDWR)

    (one,) = servers(leaves)
    url = router(one.url)
    for _ in range(3):
        assert "[DONE]" in ask(url)
        time.sleep(0.02)
    assert len(one.requests) == one.connections == 3
    assert count(metrics(url), "router_failures_total", 'upstream="0"') == 0


def test_a_client_of_http_1_0_is_answered_in_its_own_protocol(servers, router) -> None:
    (one,) = servers(good)
    answer = raw(router(one.url), "1.0")
    assert b"[DONE]" in answer
    assert one.heads[0].startswith(b"POST /v1/chat/completions HTTP/1.0\r\n")


def test_another_protocol_is_refused_in_words(servers, router) -> None:
    (one,) = servers(good)
    answer = raw(router(one.url), "1.1", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n")
    assert answer.startswith(b"HTTP/1.1 501 ")
    assert b"another protocol" in answer
    assert one.requests == []


def test_the_name_of_the_model_is_that_of_the_upstream(servers, router) -> None:
    (one,) = servers(good)
    url = router(f"{one.url}={MODEL}")
    with post(url, body(model="another", seed=7)):
        pass
    assert one.requests == [{**json.loads(body()), "seed": 7}]


def test_a_request_without_a_prompt_disturbs_no_policy(servers, router) -> None:
    two = servers(good, good)
    url = router(*(server.url for server in two))
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)
    for method, path, status in (("GET", "/v1/models", 200), ("GET", "/health", 200), ("HEAD", "/v1/models", 501)):
        connection.request(method, path)
        answer = connection.getresponse()
        answer.read()
        assert answer.status == status
    connection.close()
    ask(url)
    ask(url)
    assert asked(two) == [1, 1]


def test_what_is_no_request_is_refused_in_words(servers, router) -> None:
    (one,) = servers(good)
    connection = http.client.HTTPConnection(router(one.url).removeprefix("http://"), timeout=10)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Content-Length", "many")
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 400
    assert "cannot be read" in json.load(answer)["error"]["message"]
    connection.close()


def test_a_slow_client_makes_the_upstream_wait_and_loses_nothing(servers, router) -> None:
    size = 24 * 1024 * 1024

    def floods(wire: Wire) -> None:
        wire.head(f"Content-Length: {size}", chunked=False)
        for _ in range(size // 65536):
            wire.raw(b"x" * 65536)

    (one,) = servers(floods)
    url = router(one.url)
    with post(url, body()) as answer:
        time.sleep(0.3)
        assert one.in_flight == 1
        assert len(answer.read()) == size
    assert "x" * 10 in ask(url)


def test_pages_of_the_upstreams_follow_with_their_names(servers, router) -> None:
    two = servers(good, good)
    for number, server in enumerate(two):
        page = f'# HELP a b\nllamacpp:tokens_predicted_total {number}\nvllm:x{{le="1"}} 2\n'.encode()
        server.page = lambda wire, head, page=page: wire.body(page, kind="text/plain")
    page = metrics(router(*(server.url for server in two)))
    assert 'llamacpp:tokens_predicted_total{upstream="0"} 0\n' in page
    assert 'llamacpp:tokens_predicted_total{upstream="1"} 1\n' in page
    assert 'vllm:x{upstream="1",le="1"} 2\n' in page
    assert "# HELP a b" not in page
