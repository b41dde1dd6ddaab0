"""What a server may send, and what it counts as: through the real engine, over a real socket.

Bad input that is none of an answer's bytes is tested elsewhere:

| what | where |
|---|---|
| host does not resolve, address denied, user name, zone id, socket file, backslash in the URL | ../test_address.py |
| a name that resolves to something else later | test_address.py, test_transport.py |
| connection refused, server that dies: the stage stops by itself | ../test_bench.py |
| packets swallowed, IPv6 without a route, no ports or descriptors left, proxies, unread requests | test_transport.py |
| certificates, versions, SNI, client certificates, plain text on a TLS port | test_tls.py |
| every split of the bytes | test_sse.py, test_framing.py, dialects/test_contract.py |
| errors and streams in other dialects, streams for whole answers, no Expect header | dialects/test_contract.py |
| tokens, gaps, usage in odd places | test_measurement_cases.py |
| paused server, half of the traffic bad | test_mixed_traffic.py |
| a cancelled run, the end of the grace | ../test_bench.py, test_transport.py, tests/runs/test_workers.py |
| a worker killed in the middle | tests/runs/test_workers.py, tests/runs/test_real_engine.py |
| hostile names on pages, in charts and sheets | tests/pages_results/test_browser.py, tests/reports/ |
| HTTP/2 (GOAWAY) | does not occur: HTTP/1.1 is the only protocol that is spoken |

A negative Content-Length is a protocol error here and not a body that ends at the close: RFC 9112, 6.3 calls it
unrecoverable.
"""

import gzip
import json
import time
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from runners.load.answer import Answer
from runners.load.answer import row_of as answer_row
from runners.load.check import exchange_once
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Target, Timeouts
from tests.services.misbehaving import Wire, content, good, hang_mid_stream, json_body, serving, silent

SHORT = Timeouts(connect_s=1.0, first_byte_s=0.4, idle_s=0.4, total_s=2.0)
LONG = Timeouts(connect_s=5.0, first_byte_s=10.0, idle_s=10.0, total_s=20.0)


def with_events(*events: object, done: bool = True):
    def script(wire: Wire) -> None:
        wire.head()
        for event in events:
            wire.event(event)
        if done:
            wire.done()
        else:
            wire.end()

    return script


def stream(text: bytes, *headers: str):
    """A whole close-delimited stream in one write."""

    def script(wire: Wire) -> None:
        wire.head("Connection: close", *headers, chunked=False)
        wire.raw(text)

    return script


def event(data: object) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


NESTED = b"[" * 900 + b"]" * 900
DEEP = b'{"error":' + NESTED + b"}"
FINISHED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
WHOLE = {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}], "usage": USAGE["usage"]}
GOOD_STREAM = event(content("a")) + event(content("b")) + event(FINISHED) + event(USAGE) + b"data: [DONE]\n\n"


def close_before_status(wire: Wire) -> None:
    wire.sock.close()


def continue_three_times(wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 3)
    good(wire)


def early_hints(wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
    good(wire)


def header_drip(wire: Wire) -> None:
    wire.raw(b"HTTP/1.1 200 OK\r\n")
    for number in range(40):
        wire.raw(b"X-%d: y\r\n" % number)
        time.sleep(0.1)


def many_headers(wire: Wire) -> None:
    wire.head(*(f"X-{number}: y" for number in range(400)))
    wire.end()


def truncated_chunk(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    wire.raw(b'40\r\ndata: {"choi')


def no_last_chunk(wire: Wire) -> None:
    wire.head()
    wire.words("a")


def no_last_chunk_after_done(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    wire.event(FINISHED)
    wire.event(b"[DONE]")


def negative_chunk(wire: Wire) -> None:
    wire.head()
    wire.raw(b"-5\r\ndata: x\r\n")


def chunk_extension_and_trailer(wire: Wire) -> None:
    wire.head()
    wire.raw(b"%x;foo=bar\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(GOOD_STREAM), GOOD_STREAM))


def long_body(wire: Wire) -> None:
    wire.head("Content-Length: 5", chunked=False)
    wire.raw(GOOD_STREAM)


def conflicting_lengths(wire: Wire) -> None:
    wire.head("Content-Length: 5", "Content-Length: 9", chunked=False)
    wire.raw(b"12345")


def http10(wire: Wire) -> None:
    wire.raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + GOOD_STREAM)


def reset_mid_stream(wire: Wire) -> None:
    wire.head()
    wire.words("a")
    time.sleep(0.1)
    wire.reset()


def two_responses(wire: Wire) -> None:
    answer = json.dumps(WHOLE).encode()
    wire.raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(answer), answer) * 2
    )


def gzip_stream(wire: Wire) -> None:
    wire.head("Content-Encoding: gzip")
    deflater = zlib.compressobj(wbits=31)
    for piece in GOOD_STREAM.split(b"\n\n"):
        if piece:
            wire.chunk(deflater.compress(piece + b"\n\n") + deflater.flush(zlib.Z_SYNC_FLUSH))
            time.sleep(0.02)
    wire.end()


BOMB = gzip.compress(b"\0" * 100_000_000)


def gzip_bomb(wire: Wire) -> None:
    wire.head("Content-Encoding: gzip")
    wire.chunk(BOMB)
    wire.end()


def gzip_cut(wire: Wire) -> None:
    whole = gzip.compress(GOOD_STREAM)
    data = whole[: len(whole) // 2]
    wire.head("Content-Encoding: gzip", f"Content-Length: {len(data)}", chunked=False)
    wire.raw(data)


def byte_by_byte(wire: Wire) -> None:
    wire.head()
    for number in range(len(GOOD_STREAM)):
        wire.chunk(GOOD_STREAM[number : number + 1])
    wire.end()


def endless(wire: Wire) -> None:
    wire.head()
    for _ in range(400):
        wire.words("x", pause_s=0.01)


def slow_drip(wire: Wire) -> None:
    wire.head()
    for byte in GOOD_STREAM * 2:
        wire.chunk(bytes([byte]))
        time.sleep(0.1)


def known_length_with_pauses(wire: Wire) -> None:
    wire.head(f"Content-Length: {len(GOOD_STREAM)}", chunked=False)
    for piece in GOOD_STREAM.split(b"\n\n")[:-1]:
        wire.raw(piece + b"\n\n")
        time.sleep(0.06)


def busy(retry_after: str):
    return json_body(
        {"error": {"message": "slow down"}}, "429 Too Many", "application/json", f"Retry-After: {retry_after}"
    )


def two_choices(first: int, second: int) -> dict[str, object]:
    return {"choices": [{"index": first, "delta": {"content": "a"}}, {"index": second, "delta": {"content": "b"}}]}


THREE_DAYS_AGO = format_datetime(datetime.now(UTC) - timedelta(days=3), usegmt=True)
HOSTILE_MODEL = "<img src=x onerror=alert(1)>=cmd|' /C calc'!A0 a\u202eb %{x}\u0000"


def long_line(size: int):
    return with_events(content("x" * size), FINISHED, USAGE)


def tool(arguments: str, index: int = 0) -> dict[str, object]:
    call = {"index": index, "function": {"arguments": arguments}}
    return {"choices": [{"index": 0, "delta": {"content": None, "tool_calls": [call]}, "finish_reason": None}]}


def usage_of(tokens: object) -> bytes:
    return b'{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": ' + str(tokens).encode() + b"}}"


#: case: (script, outcome, flags that must be there, number of token events)
CASES = {
    "close_before_status": (close_before_status, "closed_early", (), 0),
    "accept_then_silent": (silent, "timeout_first_byte", (), 0),
    "hang_mid_stream": (hang_mid_stream, "timeout_idle", (), 1),
    "status_not_number": (lambda wire: wire.raw(b"HTTP/1.1 abc OK\r\n\r\n"), "protocol_error", (), 0),
    "not_http": (lambda wire: wire.raw(b"\x15\x03\x01\x00\x02\x02\x46"), "protocol_error", (), 0),
    "status_999": (json_body(b"{}", "999 Weird"), "http_error", (), 0),
    "continue_100_x3": (continue_three_times, "ok", (), 2),
    "early_hints_103": (early_hints, "ok", (), 2),
    "switching_101": (
        lambda wire: wire.raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        "protocol_error",
        (),
        0,
    ),
    "no_content_204": (lambda wire: wire.raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "empty", (), 0),
    "headers_200": (stream(GOOD_STREAM, *(f"X-{number}: y" for number in range(200))), "ok", (), 2),
    "headers_400": (many_headers, "protocol_error", (), 0),
    "header_drip": (header_drip, "timeout_total", (), 0),
    "header_nul_latin1": (lambda wire: wire.raw(b"HTTP/1.1 200 OK\r\nX-A: \xff\x00b\r\n\r\n"), "protocol_error", (), 0),
    "redirect_307": (
        json_body(b"", "307 Temporary Redirect", "text/plain", "Location: http://169.254.169.254/"),
        "http_error",
        (),
        0,
    ),
    "redirect_loop": (json_body(b"", "302 Found", "text/plain", "Location: /v1/chat/completions"), "http_error", (), 0),
    "redirect_http_downgrade": (
        json_body(b"", "301 Moved", "text/plain", "Location: http://127.0.0.1:1/"),
        "http_error",
        (),
        0,
    ),
    "content_type_missing": (
        lambda wire: (wire.head(kind=None), wire.chunk(GOOD_STREAM), wire.end()),
        "ok",
        ("content_type_missing",),
        2,
    ),
    "charset_missing_utf8": (good, "ok", (), 2),
    "charset_utf16": (
        lambda wire: (wire.head(kind="text/event-stream; charset=utf-16"), wire.chunk(GOOD_STREAM), wire.end()),
        "decode_error",
        (),
        0,
    ),
    "retry_after_seconds": (
        json_body({"error": {"message": "slow down"}}, "429 Too Many", "application/json", "Retry-After: 5"),
        "http_error",
        (),
        0,
    ),
    "retry_after_http_date": (busy("Wed, 21 Oct 2026 07:28:00 GMT"), "http_error", (), 0),
    "retry_after_negative": (busy("-1"), "http_error", (), 0),
    "retry_after_for_days": (busy("99999999"), "http_error", (), 0),
    "retry_after_words": (busy("soon"), "http_error", (), 0),
    "date_header_skew": (stream(GOOD_STREAM, f"Date: {THREE_DAYS_AGO}"), "ok", ("clock_skew",), 2),
    "date_header_nonsense": (stream(GOOD_STREAM, "Date: yesterday"), "ok", (), 2),
    "status_500_html": (
        json_body(b"<html><h1>Bad gateway</h1></html>", "502 Bad Gateway", "text/html"),
        "http_error",
        (),
        0,
    ),
    "status_401": (json_body({"error": {"message": "bad key sk-secret-key"}}, "401 Unauthorized"), "auth_error", (), 0),
    "status_402_quota": (json_body({"error": {"message": "pay"}}, "402 Payment Required"), "quota_error", (), 0),
    "status_429_quota": (json_body({"error": {"message": "insufficient_quota"}}, "429 Too Many"), "quota_error", (), 0),
    "chunked_truncated": (truncated_chunk, "truncated", (), 1),
    "chunked_no_terminal": (no_last_chunk, "truncated", (), 1),
    "chunked_no_terminal_done": (no_last_chunk_after_done, "ok", ("unclean_close",), 1),
    "chunk_size_negative": (negative_chunk, "protocol_error", (), 0),
    "chunk_extension_trailers": (chunk_extension_and_trailer, "ok", (), 2),
    "content_length_long_body": (long_body, "truncated", (), 0),
    "content_length_negative": (stream(GOOD_STREAM, "Content-Length: -1"), "protocol_error", (), 0),
    "content_length_conflict": (conflicting_lengths, "protocol_error", (), 0),
    "http10_close_delimited": (http10, "ok", (), 2),
    "identity_with_length_slow": (known_length_with_pauses, "ok", (), 2),
    "reset_mid_stream": (reset_mid_stream, "reset", (), 1),
    "pipelined_second_response": (two_responses, "ok", ("not_streaming",), 0),
    "gzip_sse_flushed": (gzip_stream, "ok", ("compressed",), 2),
    "gzip_truncated": (gzip_cut, "truncated", (), None),
    "gzip_bomb": (gzip_bomb, "too_large", (), 0),
    "encoding_chain_50": (stream(GOOD_STREAM, "Content-Encoding: " + ", ".join(["gzip"] * 50)), "decode_error", (), 0),
    "sse_lf": (stream(GOOD_STREAM), "ok", (), 2),
    "sse_crlf": (stream(GOOD_STREAM.replace(b"\n", b"\r\n")), "ok", (), 2),
    "sse_cr_only": (stream(GOOD_STREAM.replace(b"\n", b"\r")), "ok", (), 2),
    "sse_no_space": (stream(GOOD_STREAM.replace(b"data: ", b"data:")), "ok", (), 2),
    "sse_extra_spaces": (stream(GOOD_STREAM.replace(b"data: {", b"data:   {")), "ok", (), 2),
    "sse_multi_data": (stream(GOOD_STREAM.replace(b'{"choices": ', b'{"choices":\ndata: ')), "ok", (), 2),
    "sse_ping_retry_id_unknown": (
        stream(b": hi\n\nevent: ping\ndata: {}\n\nretry: 10\nid: 7\nfoo: bar\n\n" + GOOD_STREAM),
        "ok",
        (),
        2,
    ),
    "sse_no_final_blank": (stream(GOOD_STREAM[:-2]), "ok", ("unterminated_done",), 2),
    "sse_two_events_one_packet": (stream(b"".join(event(content("x")) for _ in range(10)) + GOOD_STREAM), "ok", (), 12),
    "sse_byte_by_byte": (byte_by_byte, "ok", (), 2),
    "sse_invalid_utf8": (with_events(b'{"choices":[{"delta":{"content":"\xff\xfe"}}]}'), "decode_error", (), 0),
    "sse_u2028_u0085": (with_events(content("a\u2028b\u2029c\u0085d\x0be"), FINISHED, USAGE), "ok", (), 1),
    "sse_nul_surrogate": (
        with_events(b'{"choices":[{"delta":{"content":"\\u0000\\ud800"}}]}', FINISHED, USAGE),
        "ok",
        (),
        1,
    ),
    "sse_line_200kB": (long_line(200_000), "ok", (), 1),
    "sse_line_5MB": (long_line(5_000_000), "too_large", (), 0),
    "sse_endless": (endless, "timeout_total", (), None),
    "sse_slow_drip": (slow_drip, "timeout_total", (), None),
    "done_and_finish_missing": (with_events(content("a"), done=False), "truncated", (), 1),
    "done_only": (with_events(), "empty", (), 0),
    "done_twice": (stream(GOOD_STREAM + b"data: [DONE]\n\n"), "ok", ("data_after_done",), 2),
    "data_after_done": (stream(GOOD_STREAM + event(content("late"))), "ok", ("data_after_done",), 2),
    "error_event_mid": (with_events(content("a"), {"error": {"message": "out of memory"}}), "inband_error", (), 1),
    "event_error_anthropic": (
        lambda wire: (wire.head(), wire.chunk(b'event: error\ndata: {"type": "error"}\n\n'), wire.end()),
        "inband_error",
        (),
        0,
    ),
    "json_error_200_nonstream": (json_body({"error": {"message": "no"}}), "inband_error", (), 0),
    "non_json_data": (with_events(b"hello"), "parse_error", (), 0),
    "json_truncated_line": (with_events(b'{"choices":['), "parse_error", (), 0),
    "json_nan": (with_events(content("a"), usage_of("NaN")), "parse_error", (), 1),
    "json_1e999": (with_events(content("a"), FINISHED, usage_of("1e999")), "ok", ("bad_usage",), 1),
    "json_big_int": (with_events(content("a"), FINISHED, usage_of("1" + "0" * 400)), "ok", ("bad_usage",), 1),
    "json_huge_int": (with_events(content("a"), FINISHED, usage_of("1" + "0" * 5000)), "parse_error", (), 1),
    "json_infinity": (with_events(content("a"), usage_of("Infinity")), "parse_error", (), 1),
    "json_dup_keys": (
        with_events(
            content("a"),
            FINISHED,
            b'{"choices": [], "usage": {"completion_tokens": 9}, "usage": {"completion_tokens": 2}}',
        ),
        "ok",
        ("repeated_key",),
        1,
    ),
    "json_wrong_type_choices": (with_events({"choices": {}}), "bad_payload", (), 0),
    "json_wrong_type_delta": (with_events({"choices": [{"delta": []}]}), "bad_payload", (), 0),
    "json_wrong_type_content": (with_events({"choices": [{"delta": {"content": 5}}]}), "bad_payload", (), 0),
    "json_array": (with_events([1, 2]), "bad_payload", (), 0),
    "choices_missing": (with_events({"id": "x"}, {"id": "y"}), "empty", (), 0),
    "delta_role_only": (with_events(content("", role="assistant"), content("a"), FINISHED, USAGE), "ok", (), 1),
    "delta_content_null": (
        with_events({"choices": [{"delta": {"content": None}}]}, content("a"), FINISHED),
        "ok",
        (),
        1,
    ),
    "delta_tool_calls_null": (with_events(content("a", tool_calls=None), FINISHED), "ok", (), 1),
    "tool_calls_deltas": (with_events(tool('{"a"'), tool(": 1}"), tool("{}", 1), FINISHED), "ok", (), 3),
    "reasoning_content": (
        with_events({"choices": [{"delta": {"reasoning_content": "hm"}}]}, content("a"), FINISHED),
        "ok",
        (),
        2,
    ),
    "n_gt_1": (with_events(two_choices(0, 1), two_choices(1, 0), FINISHED, usage_of(4)), "ok", (), 4),
    "finish_content_filter": (
        with_events(content("a"), {"choices": [{"delta": {}, "finish_reason": "content_filter"}]}),
        "filtered",
        (),
        1,
    ),
    "finish_length_early": (
        with_events(content("a"), {"choices": [{"delta": {}, "finish_reason": "length"}]}, usage_of(1)),
        "ok",
        ("length_early",),
        1,
    ),
    "usage_null": (with_events({**content("a"), "usage": None}, FINISHED, USAGE), "ok", (), 1),
    "usage_every_chunk": (
        with_events(*({**content("a"), "usage": {"completion_tokens": n}} for n in (1, 2, 3)), FINISHED),
        "ok",
        (),
        3,
    ),
    "usage_twice": (with_events(content("a"), FINISHED, usage_of(2), usage_of(3)), "ok", ("usage_conflict",), 1),
    "usage_zero_with_text": (with_events(content("a"), FINISHED, usage_of(0)), "ok", ("bad_usage",), 1),
    "model_name_hostile": (
        with_events({**content("a"), "model": HOSTILE_MODEL}, FINISHED),
        "ok",
        ("model_mismatch",),
        1,
    ),
    "model_name_changes": (with_events({**content("a"), "model": "other"}, FINISHED), "ok", ("model_mismatch",), 1),
    "nonstream_reply_to_stream": (json_body(WHOLE), "ok", ("not_streaming",), 0),
    "error_nested_deeply_500": (json_body(DEEP, "500 Oops"), "http_error", (), 0),
    "error_nested_deeply_in_stream": (with_events(DEEP), "inband_error", (), 0),
    "message_nested_deeply": (with_events({"error": {"message": json.loads(NESTED)}}), "inband_error", (), 0),
    "choice_that_nobody_asked_for": (
        with_events({"choices": [{"index": 70_000, "delta": {"content": "a"}}]}),
        "bad_payload",
        (),
        0,
    ),
    "content_type_html_200": (json_body(b"<html>hi</html>", "200 OK", "text/html"), "bad_content_type", (), 0),
    "text_completion_shape": (with_events({"choices": [{"text": "a"}]}), "bad_payload", (), 0),
    "no_answer_at_all_event": (with_events(content("", role="assistant"), FINISHED, USAGE), "empty", (), 0),
}


@pytest.fixture(scope="module")
def server():
    with serving({name: script for name, (script, *_) in CASES.items()}) as running:
        yield running


def row_of(server, name: str) -> dict[str, object]:
    endpoint = base_endpoint(server.url)
    requests = Requests(endpoint, Target(server.url, name), key="sk-secret-key")
    timeouts = SHORT if CASES[name][1].startswith("timeout") else LONG
    exchange = exchange_once(destination(endpoint), timeouts, requests.build("hi", 8), 8)
    exchange.model = name
    return Answer(exchange, requests.form, secret="sk-secret-key").row()


@pytest.mark.parametrize("name", CASES)
def test_an_answer_gets_its_outcome_and_keeps_what_came(server, name):
    _, outcome, flags, events = CASES[name]
    row = row_of(server, name)
    assert (row["outcome"], set(flags) - set(row["flags"])) == (outcome, set()), row
    assert events is None or row["events"] == events
    assert (row["first_token_ns"] is None) == (row["events"] == 0)
    json.dumps(row, allow_nan=False)


def test_a_key_that_a_server_echoes_is_cut_out(server):
    row = row_of(server, "status_401")
    assert "sk-secret-key" not in json.dumps(row)
    assert "[key]" in row["detail"]


def test_reading_an_answer_never_ends_a_run(server):
    def fails(text: str) -> int:
        raise RecursionError(text)

    endpoint = base_endpoint(server.url)
    requests = Requests(endpoint, Target(server.url, "usage_null"))
    exchange = exchange_once(destination(endpoint), LONG, requests.build("hi", 8), 8)
    row = answer_row(exchange, requests.form, count_tokens=fails)
    assert (row["outcome"], row["detail"]) == ("bad_payload", "the answer cannot be read (RecursionError)")
    assert row["http_status"] == 200


@pytest.mark.parametrize("before", [0, 60, 250, 16_300])
@pytest.mark.parametrize("kind", ["not_json", "error", "html", "field"])
def test_no_part_of_an_echoed_key_survives_the_cut_to_length(before, kind):
    key = "sk-" + "0123456789abcdef" * 4
    filler = "x" * before
    script = {
        "not_json": with_events(f"{filler}{key} and more".encode()),
        "error": with_events({"error": {"message": filler + key}}),
        "html": json_body(f"<p>{filler}{key}</p>".encode(), "500 Oops", "text/html"),
        "field": with_events({**content("a"), "model": filler + key}, done=False),
    }[kind]
    with serving({"m": script}) as server:
        endpoint = base_endpoint(server.url)
        requests = Requests(endpoint, Target(server.url, "m"), key=key)
        exchange = exchange_once(destination(endpoint), LONG, requests.build("hi", 8), 8)
    row = answer_row(exchange, requests.form, secret=key)
    assert "sk-0" not in json.dumps(row)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("retry_after")])
def test_a_wish_to_wait_is_told_and_never_followed(server, name):
    began = time.monotonic()
    row = row_of(server, name)
    assert time.monotonic() - began < 2
    assert row["detail"].startswith("429 slow down (Retry-After: ")


def test_a_pause_before_the_rest_of_a_known_length_is_not_in_the_time_to_first_token(server):
    row = row_of(server, "identity_with_length_slow")
    assert row["end_ns"] - row["first_token_ns"] > 200e6


def test_the_last_usage_counts_and_is_not_added_to_those_before(server):
    row = row_of(server, "usage_every_chunk")
    assert (row["output_tokens"], row["event_tokens"]) == (3, [1, 1, 1])
    assert row_of(server, "json_dup_keys")["output_tokens"] == 2
    assert row_of(server, "usage_twice")["output_tokens"] == 3


def test_a_hostile_name_is_kept_as_text_without_what_no_database_takes(server):
    name = row_of(server, "model_name_hostile")["response_model"]
    assert name == HOSTILE_MODEL.replace("\0", "")
    name.encode("utf-8")


def test_choices_of_one_event_are_events_of_their_own(server):
    row = row_of(server, "n_gt_1")
    assert (row["event_choices"], row["output_tokens"]) == ([0, 1, 1, 0], 4)


def test_a_redirect_is_named_and_not_followed(server):
    assert "169.254.169.254" in row_of(server, "redirect_307")["detail"]
