"""What every dialect must do. A new one is registered, gets a sample beside this file, and passes all of it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runners.load.answer import Answer
from runners.load.check import Asker, check, exchange_once
from runners.load.dialects import BadPayload, Delta, InbandError, form
from runners.load.exchange import Exchange
from runners.load.target import Requests, base_endpoint, destination
from runners.spec import Dialect, Target, Timeouts, Workload
from tests.runners.load.dialects.samples import SAMPLES, STREAMED, Sample
from tests.services.misbehaving import Script, Wire, serving

ROOT = Path(__file__).resolve().parents[4]
TIMEOUTS = Timeouts(connect_s=2.0, first_byte_s=2.0, idle_s=2.0, total_s=5.0)

every_dialect = pytest.mark.parametrize("dialect", Dialect)
streamed_dialects = pytest.mark.parametrize("dialect", STREAMED)


def requests_for(dialect: Dialect, url: str = "http://127.0.0.1:1", **workload: Any) -> Requests:
    return Requests(base_endpoint(url, dialect), Target(url, "m", dialect), Workload(**workload), key="sk-secret")


def row_of(dialect: Dialect, script: Script, **workload: Any) -> dict[str, Any]:
    with serving({"m": script}) as server:
        requests = requests_for(dialect, server.url, **workload)
        exchange = exchange_once(destination(requests.endpoint), TIMEOUTS, requests.build("hi", 3), 3)
    return Answer(exchange, requests.form, streams=requests.streams).row()


def as_stream(dialect: Dialect, *pieces: bytes, whole: bool = True) -> Script:
    def script(wire: Wire) -> None:
        wire.head(kind=form(dialect).framing.content_types[0])
        for piece in pieces:
            wire.chunk(piece)
        if whole:
            wire.end()

    return script


def as_whole(answer: Any) -> Script:
    return lambda wire: wire.body(json.dumps(answer).encode())


def counts(row: dict[str, Any]) -> tuple[int | None, ...]:
    return tuple(row[name] for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens"))


def timings(row: dict[str, Any]) -> tuple[float | None, float | None]:
    return row["server_prompt_ms"], row["server_decode_ms"]


# being there


@every_dialect
def test_a_dialect_is_registered_sampled_and_documented(dialect):
    assert form(dialect).path.startswith("/")
    assert dialect in SAMPLES, "add a sample to tests/runners/load/dialects/samples.py"
    assert f"`{dialect}`" in (ROOT / "docs/dialects.md").read_text()
    assert form(dialect).generates == (dialect in STREAMED)


# asking


@every_dialect
@pytest.mark.parametrize("stream", [True, False])
def test_a_request_says_prompt_length_model_and_key(dialect, stream):
    requests = requests_for(dialect, stream=stream)
    head, _, body = requests.build("tell me twelve words about llamas", 77, model="org/m-1").partition(b"\r\n\r\n")
    text = json.dumps(json.loads(body))
    assert all(word in text for word in ("tell", "llamas"))
    assert ("77" in text) == requests.form.generates
    assert "org/m-1" in text or b"org%2Fm-1" in head or dialect is Dialect.TGI_GENERATE
    assert b"sk-secret" in head
    assert b"Accept-Encoding: identity" in head
    assert b"\r\nExpect:" not in head
    if requests.form.generates and not requests.form.whole_path:
        assert json.loads(body).get("stream", False) is stream


@every_dialect
def test_every_optional_field_is_in_the_request_and_can_be_left_out(dialect):
    requests = requests_for(dialect, temperature=0.5)
    for name in requests.form.optional:
        assert f'"{name}":'.encode() in requests.build("hi", 3)
        without = Requests(requests.endpoint, requests.target, requests.workload, omit=frozenset({name}))
        assert f'"{name}":'.encode() not in without.build("hi", 3)


@every_dialect
def test_what_people_paste_becomes_the_base_address(dialect):
    requests = requests_for(dialect)
    path = requests.form.path.replace("{model}", "m")
    plain = base_endpoint("http://h:8000", dialect)
    for pasted in ("http://h:8000/", f"http://h:8000{plain.base_path}", f"http://h:8000{plain.base_path}{path}"):
        assert base_endpoint(pasted, dialect) == plain
    behind = base_endpoint(f"http://h:8000/gateway/llm{plain.base_path}{path}", dialect)
    assert behind.base_path == f"/gateway/llm{plain.base_path}"


# reading good answers


@streamed_dialects
def test_a_stream_is_read_with_all_that_it_says(dialect):
    sample = SAMPLES[dialect]
    row = row_of(dialect, as_stream(dialect, *sample.stream))
    assert (row["outcome"], row["detail"]) == ("ok", "")
    assert row["events"] == len(sample.tokens)
    assert row["finish_reason"] == sample.finish
    assert counts(row) == sample.usage
    assert timings(row) == sample.timings
    assert row["event_tokens"] == sample.event_tokens
    assert row["token_source"] == ("usage" if sample.usage[2] else "unknown")
    assert row["response_model"] in ("m", None)
    assert set(row["flags"]) <= {"stopped_early", "length_early"}


@streamed_dialects
def test_the_first_token_is_the_first_generated_text_and_not_the_first_event(dialect):
    sample = SAMPLES[dialect]
    exchange = offline(dialect, list(enumerate(sample.stream, 10)))
    row = Answer(exchange, form(dialect)).row()
    assert row["first_event_ns"] == 10
    assert row["first_token_ns"] == 10 + sample.tokens[0]
    assert row["first_token_ns"] <= row["first_answer_ns"] <= row["last_token_ns"]


CALLING = (
    Dialect.OPENAI_CHAT, Dialect.OPENAI_RESPONSES, Dialect.ANTHROPIC_MESSAGES, Dialect.OLLAMA_CHAT,
)  # fmt: skip


@pytest.mark.parametrize("dialect", CALLING)
def test_a_tool_call_is_generated_content_with_its_name_and_arguments_once(dialect):
    answer = Answer(offline(dialect, list(enumerate(SAMPLES[dialect].stream, 10))), form(dialect))
    assert answer.said.answer_text.replace(" ", "") == 'Hellof{"a":1}'


@pytest.mark.parametrize("dialect", CALLING)
def test_an_answer_that_is_only_a_tool_call_is_ok_and_has_a_first_token(dialect):
    sample = SAMPLES[dialect]
    called = [piece for number, piece in enumerate(sample.stream) if number not in sample.tokens[:3]]
    row = row_of(dialect, as_stream(dialect, *called))
    assert (row["outcome"], row["events"]) == ("ok", len(sample.tokens) - 3)
    assert row["first_token_ns"] is not None
    assert row["first_answer_ns"] is None


@streamed_dialects
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_same_bytes_in_other_pieces_give_the_same_tokens(dialect, data):
    body = b"".join(SAMPLES[dialect].stream)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(body) - 1), max_size=8)))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    row = Answer(offline(dialect, list(enumerate(pieces, 10))), form(dialect)).row()
    assert (row["outcome"], row["events"], counts(row)) == ("ok", len(SAMPLES[dialect].tokens), SAMPLES[dialect].usage)


@every_dialect
def test_a_whole_answer_has_a_latency_and_no_first_token(dialect):
    sample = SAMPLES[dialect]
    row = row_of(dialect, as_whole(sample.whole), stream=False)
    assert (row["outcome"], row["detail"]) == ("ok", "")
    assert (row["first_token_ns"], row["events"]) == (None, 0)
    assert row["last_token_ns"] > row["sent_ns"]
    assert counts(row) == sample.usage
    assert timings(row) == sample.whole_timings
    assert "not_streaming" not in row["flags"]


@streamed_dialects
def test_a_whole_answer_to_a_request_for_a_stream_is_kept_apart(dialect):
    row = row_of(dialect, as_whole(SAMPLES[dialect].whole))
    assert row["outcome"] == "ok"
    assert "not_streaming" in row["flags"]
    assert row["first_token_ns"] is None


@every_dialect
def test_the_check_accepts_it_and_learns_its_lengths(dialect):
    sample = SAMPLES[dialect]
    script = as_stream(dialect, *sample.stream) if sample.stream else as_whole(sample.whole)
    with serving({"m": script}) as server:
        requests = requests_for(dialect, server.url)
        checked = check(Asker(destination(requests.endpoint), TIMEOUTS), requests, "salt")
    assert checked.requests.omit == frozenset()
    assert checked.row["input_tokens"] == sample.usage[0]


# reading bad ones


@streamed_dialects
def test_a_stream_that_breaks_off_is_truncated_and_keeps_its_tokens(dialect):
    sample = SAMPLES[dialect]
    pieces = sample.stream[: sample.tokens[0] + 1]
    row = row_of(dialect, as_stream(dialect, *pieces, whole=False))
    assert (row["outcome"], row["events"]) == ("truncated", 1)
    if not form(dialect).ends_by_close:
        assert row_of(dialect, as_stream(dialect, *pieces))["outcome"] == "truncated"


@streamed_dialects
def test_an_error_inside_a_stream_fails_the_request_and_keeps_its_tokens(dialect):
    sample = SAMPLES[dialect]
    row = row_of(dialect, as_stream(dialect, *sample.stream[: sample.tokens[0] + 1], bytes_of(sample), whole=True))
    assert (row["outcome"], row["events"]) == ("inband_error", 1)
    assert "out of memory" in row["detail"]


def bytes_of(sample: Sample) -> bytes:
    return sample.error if isinstance(sample.error, bytes) else json.dumps(sample.error).encode()


@every_dialect
def test_an_error_with_a_success_status_fails_the_request(dialect):
    row = row_of(dialect, as_whole({"error": {"message": "out of memory"}}), stream=False)
    assert (row["outcome"], row["detail"]) == ("inband_error", "out of memory")


@every_dialect
def test_a_stream_for_a_whole_answer_is_the_wrong_content_type(dialect):
    row = row_of(dialect, as_stream(dialect, *SAMPLES[dialect].stream), stream=False)
    assert row["outcome"] == "bad_content_type"


@streamed_dialects
def test_a_stream_without_a_token_is_empty(dialect):
    sample = SAMPLES[dialect]
    quiet = [piece for number, piece in enumerate(sample.stream) if number not in sample.tokens]
    row = row_of(dialect, as_stream(dialect, *quiet))
    assert (row["outcome"], row["first_token_ns"]) == ("empty", None)


@every_dialect
@pytest.mark.parametrize("answer", [{}, {"id": "x"}])
def test_a_whole_answer_without_anything_is_empty(dialect, answer):
    assert row_of(dialect, as_whole(answer), stream=False)["outcome"] == "empty"


# hostile JSON

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def objects_of(sample: Sample) -> list[Any]:
    """Every JSON object of a sample."""
    found = [sample.whole]
    for piece in (*sample.stream, bytes_of(sample)):
        for line in piece.split(b"\n"):
            with suppress(orjson.JSONDecodeError):
                found.append(orjson.loads(line.removeprefix(b"data: ")))
    return found


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], junk)
    return copy


@every_dialect
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_reader_survives_any_json_in_any_place(dialect, data):
    original = data.draw(st.sampled_from(objects_of(SAMPLES[dialect])))
    chunk = replaced(original, data.draw(st.sampled_from(places(original))), data.draw(JSON))
    for read in (form(dialect).read, form(dialect).read_whole):
        try:
            delta = read(chunk)
        except (BadPayload, InbandError):
            continue
        assert_sound(delta)


def assert_sound(delta: Delta) -> None:
    assert all(isinstance(piece.text, str) and isinstance(piece.choice, int) for piece in delta.pieces)
    assert isinstance(delta.finish_reason, str | None)
    assert isinstance(delta.model, str | None)
    assert all(count is None or count >= 0 for count in delta.usage or ())
    assert all(ms is None or 0 <= ms < 1e13 for ms in delta.timings or ())


def offline(dialect: Dialect, pieces: list[tuple[int, bytes]]) -> Exchange:
    """An exchange in which each piece was a read of its own, with the given stamp."""
    exchange = Exchange(b"")
    exchange.sent_ns = 1
    kind = form(dialect).framing.content_types[0].encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    exchange.response.add(2, head)
    for stamp, piece in pieces:
        exchange.response.add(stamp, b"%x\r\n%b\r\n" % (len(piece), piece))
    exchange.response.add(pieces[-1][0] + 1, b"0\r\n\r\n")
    exchange.end_ns = pieces[-1][0] + 1
    return exchange
