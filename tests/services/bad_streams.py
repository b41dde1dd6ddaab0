"""Bad input in the events of a stream: their lines, their JSON, and what it says."""

import json
import time

from tests.services.bad_input import (
    DONE,
    FINISHED,
    GOOD_STREAM,
    USAGE,
    Case,
    event,
    told,
    usage_of,
    with_events,
)
from tests.services.misbehaving import Script, Wire, content, event_stream, json_body

NESTED = b"[" * 900 + b"]" * 900
DEEP = b'{"error":' + NESTED + b"}"
NUL_AND_SURROGATE = b'{"choices":[{"delta":{"content":"\\u0000\\ud800"}}],"model":"m\\u0000\\ud800"}'
HOSTILE_NAME = "<img src=x onerror=alert(1)>=cmd|' /C calc'!A0 a\u202eb %{x}\u0000"
SEPARATORS = "a\u2028b\u2029c\u0085d\x0be"
UMLAUT = "ü€"


def byte_by_byte(wire: Wire) -> None:
    wire.head()
    wire.raw(b"".join(b"1\r\n%c\r\n" % byte for byte in GOOD_STREAM))
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


def in_place_of(old: bytes, new: bytes) -> Script:
    return event_stream(GOOD_STREAM.replace(old, new))


def before(text: bytes) -> Script:
    return event_stream(text + GOOD_STREAM)


def behind(text: bytes) -> Script:
    return event_stream(GOOD_STREAM + text)


def said(**delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def ended(reason: str) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


def tool(arguments: str, index: int = 0) -> dict[str, object]:
    return said(content=None, tool_calls=[{"index": index, "function": {"arguments": arguments}}])


def two_choices(first: int, second: int) -> dict[str, object]:
    return {"choices": [{"index": first, "delta": {"content": "a"}}, {"index": second, "delta": {"content": "b"}}]}


def long_line(size: int) -> Script:
    return with_events(content("x" * size), FINISHED, USAGE)


TWICE = b'{"choices": [], "usage": {"completion_tokens": 9}, "usage": {"completion_tokens": 2}}'
CUMULATIVE = [{**content("a"), "usage": {"completion_tokens": n}} for n in (1, 2, 3)]
ANTHROPIC_ERROR = b'event: error\ndata: {"type": "error", "error": {"message": "overloaded"}}\n\n'

#: What stands behind a slash is a variant of the same kind.
STREAMS: dict[str, Case] = {
    # lines
    "charset_missing_utf8": Case(with_events(content(UMLAUT), FINISHED, USAGE), "ok", 1),
    "sse_lf": Case(event_stream(GOOD_STREAM), "ok", 2),
    "sse_crlf": Case(in_place_of(b"\n", b"\r\n"), "ok", 2),
    "sse_cr_only": Case(in_place_of(b"\n", b"\r"), "ok", 2),
    "sse_no_space": Case(in_place_of(b"data: ", b"data:"), "ok", 2),
    "sse_extra_spaces": Case(in_place_of(b"data: {", b"data:   {"), "ok", 2),
    "sse_multi_data": Case(in_place_of(b'{"choices": ', b'{"choices":\ndata: '), "ok", 2),
    "sse_event_ping": Case(before(b": hi\n\nevent: ping\ndata: {}\n\n"), "ok", 2),
    "sse_retry_id": Case(before(b"retry: 10\nid: 7\n\n"), "ok", 2),
    "sse_unknown_field": Case(before(b"foo: bar\nbaz\n"), "ok", 2),
    "sse_no_final_blank": Case(event_stream(event(content("a")) + event(content("b"))[:-1]), "truncated", 1),
    "sse_no_final_blank/done": Case(event_stream(GOOD_STREAM[:-2]), "ok", 2, ("unterminated_done",)),
    "sse_two_events_one_packet": Case(before(event(content("x")) * 8), "ok", 10),
    "sse_byte_by_byte": Case(byte_by_byte, "ok", 2),
    "sse_invalid_utf8": Case(with_events(b'{"choices":[{"delta":{"content":"\xff\xfe"}}]}'), "decode_error"),
    "sse_u2028_u0085": Case(
        with_events(json.dumps(content(SEPARATORS), ensure_ascii=False).encode(), FINISHED, USAGE), "ok", 1
    ),
    "sse_nul_surrogate": Case(with_events(NUL_AND_SURROGATE, FINISHED, USAGE), "ok", 1),
    "sse_line_200kB": Case(long_line(200_000), "ok", 1),
    "sse_line_200kB/5 MB": Case(long_line(5_000_000), "too_large"),
    "sse_endless": Case(endless, "timeout_total"),
    "sse_slow_drip": Case(slow_drip, "timeout_total"),
    # ends
    "done_and_finish_missing": Case(with_events(content("a"), done=False), "truncated", 1),
    "done_only": Case(with_events(), "empty"),
    "done_only/role and usage": Case(with_events(content("", role="assistant"), FINISHED, USAGE), "empty"),
    "done_twice_or_data_after": Case(behind(DONE), "ok", 2, ("data_after_done",)),
    "done_twice_or_data_after/data": Case(behind(event(content("late"))), "ok", 2, ("data_after_done",)),
    "error_event_mid": Case(
        with_events(content("a"), {"error": {"message": "no memory"}}), "inband_error", 1, detail="no memory"
    ),
    "error_event_mid/deep": Case(with_events(DEEP), "inband_error"),
    "error_event_mid/deep words": Case(with_events({"error": {"message": json.loads(NESTED)}}), "inband_error"),
    "error_event_mid/deep 500": Case(json_body(DEEP, "500 Oops"), "http_error"),
    "event_error_anthropic": Case(event_stream(ANTHROPIC_ERROR), "inband_error", detail="overloaded"),
    "json_error_200_nonstream": Case(json_body({"error": {"message": "no"}}), "inband_error", detail="no"),
    "json_error_200_nonstream/asked": Case(json_body({"error": {"message": "no"}}), "inband_error", stream=False),
    # JSON
    "non_json_data": Case(with_events(content("a"), b"hello"), "parse_error", 1, detail="hello"),
    "json_truncated_line": Case(with_events(b'{"choices":[', b"]}", content("a"), FINISHED), "parse_error"),
    "json_nan_infinity/nan": Case(with_events(content("a"), usage_of("NaN")), "parse_error", 1),
    "json_nan_infinity/infinity": Case(with_events(content("a"), usage_of("Infinity")), "parse_error", 1),
    "json_nan_infinity/1e999": Case(told(usage_of("1e999")), "ok", 1, ("bad_usage",)),
    "json_big_int": Case(told(usage_of("1" + "0" * 400)), "ok", 1, ("bad_usage",)),
    "json_big_int/5000 digits": Case(told(usage_of("1" + "0" * 5000)), "parse_error", 1),
    "json_dup_keys": Case(told(TWICE), "ok", 1, ("repeated_key",)),
    "json_wrong_types/choices": Case(with_events(content("a"), {"choices": {}}), "bad_payload", 1),
    "json_wrong_types/delta": Case(with_events({"choices": [{"delta": []}]}), "bad_payload"),
    "json_wrong_types/content": Case(with_events({"choices": [{"delta": {"content": 5}}]}), "bad_payload"),
    "json_wrong_types/array": Case(with_events([1, 2]), "bad_payload"),
    "json_wrong_types/index": Case(
        with_events({"choices": [{"index": 70_000, "delta": {"content": "a"}}]}), "bad_payload"
    ),
    # what is said
    "choices_missing": Case(with_events({"id": "x"}, {"id": "y"}), "empty"),
    "choices_missing/some": Case(with_events({"id": "x"}, content("a"), FINISHED), "ok", 1),
    "delta_role_only": Case(with_events(content("", role="assistant"), content("a"), FINISHED, USAGE), "ok", 1),
    "delta_content_null": Case(with_events(said(content=None), content("a"), FINISHED), "ok", 1),
    "delta_tool_calls_null": Case(with_events(content("a", tool_calls=None), FINISHED), "ok", 1),
    "tool_calls_deltas": Case(with_events(tool('{"a"'), tool(": 1}"), tool("{}", 1), FINISHED), "ok", 3),
    "reasoning_content": Case(with_events(said(reasoning_content="hm"), content("a"), FINISHED), "ok", 2),
    "reasoning_content/reasoning": Case(with_events(said(reasoning="hm"), content("a"), FINISHED), "ok", 2),
    "finish_content_filter": Case(with_events(content("a"), ended("content_filter")), "filtered", 1),
    "finish_length_early": Case(with_events(content("a"), ended("length"), usage_of(1)), "ok", 1, ("length_early",)),
    "n_gt_1": Case(with_events(two_choices(0, 1), two_choices(1, 0), FINISHED, usage_of(4)), "ok", 4),
    "usage_null": Case(with_events({**content("a"), "usage": None}, FINISHED, USAGE), "ok", 1),
    "usage_every_chunk": Case(with_events(*CUMULATIVE, FINISHED), "ok", 3),
    "usage_twice": Case(told(usage_of(2), usage_of(3)), "ok", 1, ("usage_conflict",)),
    "usage_zero_with_text": Case(told(usage_of(0)), "ok", 1, ("bad_usage",)),
    "usage_disagrees": Case(told(usage_of(500)), "ok", 1, ("usage_disagrees",)),
    "chunk_many_tokens": Case(with_events(content("a b c d e f g h"), FINISHED, usage_of(8)), "ok", 1),
    "model_name_changes": Case(with_events({**content("a"), "model": "other"}, FINISHED), "ok", 1, ("model_mismatch",)),
    "model_name_hostile": Case(
        with_events({**content("a"), "model": HOSTILE_NAME}, FINISHED), "ok", 1, ("model_mismatch",)
    ),
    "text_completion_shape": Case(with_events({"choices": [{"text": "a"}]}), "bad_payload"),
}
