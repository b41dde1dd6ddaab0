"""What may go wrong between a request and its answer, kind by kind: what it counts as, and what is kept of it.

A server of ours plays the kinds of ``tests/services/bad_http.py`` and ``bad_streams.py`` over a real socket to the real
engine. Kinds that need another set-up have their tests in ELSEWHERE, by name.

Kinds that cannot occur, or end otherwise than the first thought:

| kind | why |
|---|---|
| http2_goaway | HTTP/1.1 is the only protocol that is spoken |
| content_length_negative | a protocol error and not a body up to the close: RFC 9112, 6.3 calls it unrecoverable |
| retry_after_* | told in the row and never waited for: no request is repeated inside a measurement |
| sse_endless | ends by time and by bytes; the asked number of tokens is the server's to keep |
"""

import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from runners.load.answer import Answer
from runners.load.arrivals import ClosedLoop, Span
from runners.load.check import exchange_once
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.records import SCHEMA
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts, Workload
from tests.named import missing
from tests.services.bad_http import BOMB_MB, BOMBS, HTTP, PAUSE_S, bomb, redirect
from tests.services.bad_input import GOOD_STREAM, Case
from tests.services.bad_streams import HOSTILE_NAME, SEPARATORS, STREAMS, UMLAUT
from tests.services.misbehaving import Server, Wire, content, good, serving

SHORT = Timeouts(connect_s=1.0, first_byte_s=0.4, idle_s=0.4, total_s=2.0)
LONG = Timeouts(connect_s=5.0, first_byte_s=10.0, idle_s=10.0, total_s=20.0)
CASES: dict[str, Case] = HTTP | STREAMS
KEY = "sk-secret-key"

#: Kinds whose set-up is another: the tests that prove them.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "dns_nxdomain": (
        "runners/test_address.py::test_a_name_that_does_not_exist_is_a_dns_error_without_the_resolvers_own_text",
        "runners/test_bench.py::test_an_address_that_cannot_be_used_is_refused_with_words",
    ),
    "dns_temp_fail_midrun": (
        "runners/load/test_transport.py::test_a_host_is_looked_up_once_so_a_resolver_that_fails_later_stops_nothing",
        "runners/test_address.py::test_a_silent_dns_server_asks_to_try_again",
    ),
    "dns_rebinding": (
        "runners/test_address.py::test_a_name_that_answers_differently_the_second_time_keeps_its_first_checked_address",
        "runners/test_address.py::test_one_denied_address_among_many_blocks_the_host",
    ),
    "connect_refused": (
        "runners/load/test_transport.py::test_when_every_address_refuses_the_request_is_refused",
        "runners/test_bench.py::test_a_closed_port_is_not_usable_and_the_words_say_what_to_do",
        "runners/test_bench.py::test_a_server_that_dies_ends_the_run_with_every_planned_request_counted",
    ),
    "connect_blackhole": (
        "runners/load/test_transport.py::test_one_address_that_swallows_packets_is_a_connect_timeout_at_the_limit",
    ),
    "accept_then_silent": (
        "runners/load/test_bad_input.py::test_a_server_that_accepts_and_reads_nothing_has_no_first_token",
    ),
    "ephemeral_ports_exhausted": (
        "runners/load/test_transport.py::test_running_out_of_local_ports_stops_the_run_and_says_what_to_widen",
        "runners/load/test_transport.py::test_what_this_machine_runs_out_of_is_not_the_endpoints_fault",
    ),
    "fd_exhausted": (
        "runners/load/test_transport.py::test_running_out_of_file_descriptors_stops_the_run_and_says_the_limit",
    ),
    "tls_expired": (
        "runners/load/test_tls.py::test_a_certificate_that_must_not_be_trusted_is_refused_with_the_reason",
    ),
    "tls_self_signed": (
        "runners/load/test_tls.py::test_a_certificate_that_must_not_be_trusted_is_refused_with_the_reason",
        "runners/load/test_tls.py::test_a_self_signed_certificate_passes_only_with_a_file_that_holds_it",
    ),
    "tls_hostname_mismatch": (
        "runners/load/test_tls.py::test_a_certificate_that_must_not_be_trusted_is_refused_with_the_reason",
    ),
    "tls_sni_required": (
        "runners/load/test_tls.py::"
        "test_the_name_asked_for_by_sni_and_host_is_the_urls_though_an_address_is_connected_to",
    ),
    "tls_incomplete_chain": (
        "runners/load/test_tls.py::test_a_chain_without_its_intermediate_is_refused_and_with_it_taken",
        "runners/load/test_tls.py::test_an_unknown_issuer_is_refused",
    ),
    "tls_old_version": ("runners/load/test_tls.py::test_versions_that_are_no_longer_safe_are_not_spoken",),
    "https_to_plain_port": ("runners/load/test_tls.py::test_https_to_a_plain_port_hints_at_http",),
    "mtls_required": (
        "runners/load/test_tls.py::test_a_server_that_asks_for_a_client_certificate_gets_it_or_the_request_says_so",
    ),
    "ipv6_only_host_broken_v6": (
        "runners/load/test_transport.py::"
        "test_an_ipv6_address_without_a_route_gives_way_to_ipv4_and_the_row_says_which_was_used",
    ),
    "ipv6_zone_id": ("runners/test_address.py::test_a_url_that_cannot_be_measured_is_refused_with_the_fix",),
    "unix_socket_url": ("runners/test_address.py::test_a_url_that_cannot_be_measured_is_refused_with_the_fix",),
    "mapped_v6_metadata": (
        "runners/test_address.py::test_link_local_metadata_multicast_and_unspecified_addresses_are_always_denied",
        "runners/test_address.py::test_a_literal_metadata_address_is_refused_when_entered_and_when_resolved",
    ),
    "url_userinfo": ("runners/test_address.py::test_a_url_that_cannot_be_measured_is_refused_with_the_fix",),
    "url_backslash_at": ("runners/test_address.py::test_a_backslash_before_an_at_sign_does_not_move_the_host",),
    "env_proxy_set": ("runners/load/test_transport.py::test_proxies_of_the_environment_and_netrc_are_never_used",),
    "proxy_407": ("runners/load/test_transport.py::test_what_a_proxy_refuses_is_counted_apart_from_the_endpoint",),
    "proxy_connect_fail": (
        "runners/load/test_transport.py::test_what_a_proxy_refuses_is_counted_apart_from_the_endpoint",
        "runners/load/test_transport.py::test_a_proxy_that_is_not_there_is_a_proxy_error",
    ),
    "reasoning_double_count": (
        "runners/load/test_measurement_cases.py::test_reasoning_tokens_are_a_part_of_the_output_and_not_added_again",
    ),
    "server_paused_1s": (
        "runners/load/test_mixed_traffic.py::"
        "test_while_a_server_is_paused_every_planned_request_waits_from_when_it_was_due",
    ),
    "run_cancelled_mid": (
        "runners/load/test_bad_input.py::test_a_stop_with_two_hundred_in_flight_closes_all_of_their_connections",
        "runners/test_bench.py::test_an_interrupted_run_keeps_its_rows_and_says_so",
        "runs/test_real_engine.py::test_a_cancel_keeps_the_summary_of_what_was_measured",
    ),
    "deadline_reached": (
        "runners/load/test_transport.py::test_requests_end_cancelled_when_the_grace_after_the_last_send_is_over",
        "runners/load/test_summary.py::"
        "test_the_steady_window_of_a_closed_loop_ends_when_no_request_takes_the_place_of_one_that_ended",
    ),
    "worker_sigkill_mid": (
        "runs/test_real_engine.py::test_kill_9_of_the_worker_mid_run_keeps_the_rows_and_sends_nothing_more",
    ),
    "upload_slow_reader": ("runners/load/test_transport.py::test_a_server_that_takes_no_bytes_is_a_write_timeout",),
    "http2_goaway": (),
}

#: Kinds of the table above that a test elsewhere takes further.
FURTHER = (
    "runners/load/test_tls.py::test_http_to_a_tls_port_hints_at_https_and_leaks_no_bytes",
    "runners/load/test_stage.py::test_a_refused_key_stops_the_run_at_once_only_where_it_never_worked",
    "runners/load/test_stage.py::test_a_used_up_quota_stops_the_run",
    "runners/load/dialects/test_contract.py::test_an_error_inside_a_stream_fails_the_request_and_keeps_its_tokens",
    "runners/load/dialects/test_contract.py::test_a_stream_for_a_whole_answer_is_the_wrong_content_type",
    "reports/test_results.py::test_a_hostile_model_name_stays_text_in_its_own_cell",
    "runners/load/test_splits.py::test_any_split_of_the_bytes_gives_the_same_row_and_each_event_the_stamp_of_its_read",
)


def test_every_test_that_is_named_here_exists_and_no_kind_stands_twice():
    assert missing([*(name for names in ELSEWHERE.values() for name in names), *FURTHER]) == []
    assert not {name.split("/")[0] for name in CASES} & set(ELSEWHERE)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({name: case.script for name, case in CASES.items()}) as running:
        yield running


def row_of(server: Server, name: str, texts: list[str] | None = None) -> dict[str, Any]:
    """``texts`` gets what was said, choice by choice."""
    case = CASES[name]

    def count(text: str) -> int:
        if texts is not None:
            texts.append(text)
        return len(text.split())

    requests = Requests(base_endpoint(server.url), Target(server.url, name), Workload(stream=case.stream), key=KEY)
    timeouts = SHORT if case.outcome.startswith("timeout") else LONG
    exchange = exchange_once(destination(requests.endpoint), timeouts, requests.build("hi", 8), 8)
    exchange.model = name
    return Answer(exchange, requests.form, streams=case.stream, count_tokens=count, secret=KEY).row()


def text_of(row: dict[str, Any]) -> str:
    """JSON without NaN; columns may be arrays."""
    return json.dumps(row, allow_nan=False, default=lambda column: column.tolist())


@pytest.mark.parametrize("name", CASES)
def test_an_answer_gets_its_outcome_and_keeps_what_came(server, name):
    case, asked_before = CASES[name], len(server.requests)
    row = row_of(server, name)
    assert (row["outcome"], set(case.flags) - set(row["flags"])) == (case.outcome, set()), row
    assert case.detail in row["detail"]
    if name not in ("sse_endless", "sse_slow_drip", "gzip_truncated"):  # where it breaks off is the clock's affair
        assert row["events"] == case.events
    assert (row["first_token_ns"] is None) == (row["events"] == 0)
    assert len(row["event_offsets_ns"]) == row["events"]
    assert len(server.requests) == asked_before + 1  # nothing is repeated, followed or reconnected
    assert KEY not in text_of(row)
    pa.Table.from_pylist([row], schema=SCHEMA)


# what else a kind demands


def test_a_server_that_accepts_and_reads_nothing_has_no_first_token():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        requests = Requests(base_endpoint(url), Target(url, "m"))
        row = Answer(
            exchange_once(destination(requests.endpoint), SHORT, requests.build("hi", 8), 8), requests.form
        ).row()
    assert (row["outcome"], row["first_token_ns"], row["headers_ns"]) == ("timeout_first_byte", None, None)


@pytest.mark.parametrize("name", ["http10_close_delimited", "identity_with_length_slow", "gzip_sse_flushed"])
def test_a_pause_behind_the_first_token_is_not_in_its_time(server, name):
    row = row_of(server, name)
    assert row["end_ns"] - row["first_token_ns"] > 3 * PAUSE_S * 1e9
    assert row["last_token_ns"] - row["first_token_ns"] > 0.8 * PAUSE_S * 1e9


@pytest.mark.parametrize("name", ["pipelined_second_response", "content_length_long_body"])
def test_a_connection_with_bytes_that_belong_to_no_answer_is_not_used_again(name):
    def script(wire: Wire) -> None:
        CASES[name].script(wire)
        time.sleep(0.05)

    with serving({"keep": script}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "keep"))
        rows = drive(requests, 3)
    assert [row["outcome"] for row in rows] == [CASES[name].outcome] * 3
    assert server.connections == 3


def drive(requests: Requests, count: int) -> list[dict[str, Any]]:
    """Rows of so many requests, one after the other."""
    finished: list[Exchange] = []
    engine = Engine(destination(requests.endpoint), LONG, finished.append)
    request = requests.build("hi", 8)
    try:
        engine.drive(ClosedLoop(1, Span(0, requests=count)), lambda _: Exchange(request), drain_s=5)
    finally:
        engine.close()
    return [Answer(exchange, requests.form).row() for exchange in finished]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
def test_a_redirect_is_never_followed_and_no_key_goes_to_another_server(status):
    with serving({"m": good}) as other, serving({"m": redirect(status, other.url)}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"), key=KEY)
        row = drive(requests, 1)[0]
    assert (row["outcome"], other.connections) == ("http_error", 0)
    assert other.url in row["detail"]


def peak_mb() -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1e3


@pytest.mark.parametrize("name", BOMBS)
def test_a_compressed_body_that_inflates_without_end_takes_little_memory(server, name):
    assert len(bomb(name)) < BOMB_MB * 10_000
    row_of(server, name)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before_mb = peak_mb()
    assert row_of(server, name)["outcome"] == "too_large"
    assert peak_mb() - before_mb < 16


def test_single_bytes_cost_no_more_each_in_a_long_stream_than_in_a_short_one():
    form = Requests(base_endpoint("http://h"), Target("http://h", "m")).form

    def cpu_s(times: int) -> float:
        exchange = Exchange(b"")
        began = time.process_time()
        exchange.response.add(1, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        text = b"data: " + json.dumps(content("x" * 5_000 * times)).encode() + b"\n\n" + GOOD_STREAM
        for stamp in range(len(text)):
            exchange.response.add(stamp, text[stamp : stamp + 1])
        exchange.response.end_of_stream()
        assert Answer(exchange, form).row()["events"] == 3
        return time.process_time() - began

    assert cpu_s(16) < 16 * 4 * cpu_s(1)


def test_a_stream_without_end_is_dropped_so_that_its_server_stops():
    stopped = []

    def endless(wire: Wire) -> None:
        wire.head()
        began = time.monotonic()
        try:
            while time.monotonic() - began < 10:
                wire.words("x", pause_s=0.01)
        except OSError:
            stopped.append(time.monotonic() - began)

    with serving({"m": endless}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"))
        where = destination(requests.endpoint)
        row = Answer(exchange_once(where, SHORT, requests.build("hi", 8), 8), requests.form).row()
        until = time.monotonic() + 5
        while not stopped and time.monotonic() < until:
            time.sleep(0.01)
    assert row["outcome"] == "timeout_total"
    assert row["events"] > 10
    assert stopped[0] < 5


def test_a_stop_with_two_hundred_in_flight_closes_all_of_their_connections():
    gone = []

    def waits(wire: Wire) -> None:
        wire.head()
        wire.words("a")
        wire.sock.settimeout(10)
        gone.append(wire.sock.recv(1))

    with serving({"m": waits}) as server:
        requests = Requests(base_endpoint(server.url), Target(server.url, "m"))
        request, finished = requests.build("hi", 8), list[Exchange]()
        engine = Engine(destination(requests.endpoint), LONG, finished.append)

        def stop_when_all_are_there(now_ns: int) -> None:
            if server.in_flight == 200:
                engine.stop("interrupted")

        engine.drive(
            ClosedLoop(200, Span(0, requests=400)), lambda _: Exchange(request), drain_s=5,
            on_tick=stop_when_all_are_there,
        )  # fmt: skip
        ended = time.monotonic()
        while len(gone) < 200 and time.monotonic() < ended + 2:
            time.sleep(0.01)
        engine.close()
    assert gone == [b""] * 200
    assert {Answer(exchange, requests.form).row()["outcome"] for exchange in finished} == {"cancelled"}


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("retry_after")])
def test_a_wish_to_wait_is_told_and_never_followed(server, name):
    began = time.monotonic()
    row_of(server, name)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("name", "said"),
    [("charset_missing_utf8", [UMLAUT]), ("sse_u2028_u0085", [SEPARATORS]), ("sse_multi_data", ["ab"])],
)
def test_text_comes_out_as_it_was_sent(server, name, said):
    texts: list[str] = []
    row_of(server, name, texts)
    assert texts == said


def test_events_of_one_packet_have_one_time_and_tokens_by_the_usage(server):
    row = row_of(server, "sse_two_events_one_packet")
    assert len(set(row["event_offsets_ns"])) == 1
    assert (row["output_tokens"], row["token_source"]) == (2, "usage")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning_content/reasoning"])
def test_the_first_reasoning_is_the_first_token(server, name):
    row = row_of(server, name)
    assert row["sent_ns"] < row["first_token_ns"] <= row["first_answer_ns"]
    assert row["event_offsets_ns"][0] == row["first_token_ns"] - row["sent_ns"]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("usage_every_chunk", 3), ("json_dup_keys", 2), ("usage_twice", 3), ("usage_null", 2), ("usage_disagrees", 500),
     ("chunk_many_tokens", 8), ("n_gt_1", 4)],
)  # fmt: skip
def test_the_last_usage_counts_and_is_not_added_to_those_before(server, name, tokens):
    assert row_of(server, name)["output_tokens"] == tokens


@pytest.mark.parametrize("name", ["json_big_int", "json_nan_infinity/1e999", "usage_zero_with_text"])
def test_a_count_that_cannot_be_true_is_replaced_by_the_tokenizers(server, name):
    row = row_of(server, name)
    assert (row["output_tokens"], row["token_source"]) == (1, "tokenizer")


def test_tokens_of_each_event_are_told_where_the_server_counts_along(server):
    assert list(row_of(server, "usage_every_chunk")["event_tokens"]) == [1, 1, 1]
    assert list(row_of(server, "n_gt_1")["event_choices"]) == [0, 1, 1, 0]


@pytest.mark.parametrize(("name", "kept"), [("model_name_hostile", HOSTILE_NAME), ("sse_nul_surrogate", "m")])
def test_a_hostile_name_is_kept_as_text_without_what_no_database_takes(server, name, kept):
    model = row_of(server, name)["response_model"]
    assert model == kept.replace("\0", "")
    model.encode("utf-8")
