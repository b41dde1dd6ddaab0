"""Wherever the network cuts an answer's bytes, the same row comes out, and each event has the stamp of its read.

Streams of all framings, events and JSON lines alike, are cut at any places. What is true of an event's time is worked
out here from the bytes alone: it is there with the read that holds the end of its last line. Of a CRLF either byte may
count as that end.
"""

import json
from bisect import bisect_left
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runners.load.answer import Answer
from runners.load.dialects import form
from runners.load.exchange import Exchange
from runners.load.framing import ProtocolError
from runners.load.outcomes import Outcome
from runners.spec import Dialect
from tests.services.bad_input import FINISHED, USAGE
from tests.services.misbehaving import content

CHAT, LINES = form(Dialect.OPENAI_CHAT), form(Dialect.OLLAMA_CHAT)
#: Texts that parsers trip over, and some that repeat, for which reading has a short way.
TEXTS = st.lists(
    st.sampled_from(["a", "a", "a", "data: x", "\r\n\r\n", "0\r\n\r\n", "ü€", "\u2028", "", "\\", '"', "y" * 300]),
    max_size=8,
)
LINE_END = st.sampled_from([b"\n", b"\r\n", b"\r"])
NOTES = st.sampled_from([b"", b"", b": note", b"id: 7", b"retry: 1", b"foo", b"event: ping"])

Part = tuple[bytes, bool]


@st.composite
def events(draw: st.DrawFn) -> list[Part]:
    """(bytes, whether they end a token event) of a stream of server-sent events."""
    end = draw(LINE_END)
    parts: list[Part] = [(b"\xef\xbb\xbf", False)] if draw(st.booleans()) else []
    for text in draw(TEXTS):
        note, data = draw(NOTES), b"data: " + json.dumps(content(text), ensure_ascii=draw(st.booleans())).encode()
        parts.append((note + end if note else b"", False))
        parts.append((data + end + end, bool(text)))
    parts += [(b"data: " + json.dumps(last).encode() + end + end, False) for last in (FINISHED, USAGE)]
    return [*parts, (b"data: [DONE]" + end + end, False)]


@st.composite
def lines(draw: st.DrawFn) -> list[Part]:
    """The same as JSON lines."""
    end = draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"]))
    said = [
        (json.dumps({"model": "m", "message": {"content": text}, "done": False}).encode() + end, bool(text))
        for text in draw(TEXTS)
    ]
    last = {"model": "m", "message": {"content": ""}, "done": True, "done_reason": "stop", "prompt_eval_count": 5}
    return [*said, (json.dumps(last | {"eval_count": 2}).encode() + end, False)]


@st.composite
def chunks(draw: st.DrawFn, body: bytes) -> list[bytes]:
    cuts = draw(st.lists(st.integers(0, len(body)), max_size=6))
    return [body[a:b] for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), len(body)], strict=True) if body[a:b]]


Places = list[tuple[int, int]]


def end_of(data: bytes) -> tuple[int, int]:
    """The first and the last byte, counted from one, that may be taken for the end of the event in ``data``."""
    if data.startswith(b"{"):
        end = data.index(b"\n") + 1
        return end, end
    return len(data) - data.endswith(b"\r\n"), len(data)


@st.composite
def wires(draw: st.DrawFn, kind: bytes, parts: list[Part]) -> tuple[bytes, Places]:
    """A response's bytes, and at which of them each token event is there."""
    body, ends = b"", Places()
    for data, spoken in parts:
        if spoken:
            first, last = end_of(data)
            ends.append((len(body) + first, len(body) + last))
        body += data
    head = b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n"
    framing = draw(st.sampled_from(["chunked", "length", "close"]))
    if framing != "chunked":
        head += b"Content-Length: %d\r\n\r\n" % len(body) if framing == "length" else b"\r\n"
        return head + body, [(len(head) + first, len(head) + last) for first, last in ends]
    data, place = head + b"Transfer-Encoding: chunked\r\n\r\n", [0]
    for piece in draw(chunks(body)):
        data += b"%x%b\r\n" % (len(piece), draw(st.sampled_from([b"", b";a=b"])))
        place += range(len(data) + 1, len(data) + len(piece) + 1)
        data += piece + b"\r\n"
    data += b"0\r\n" + draw(st.sampled_from([b"", b"X-T: 1\r\n"])) + b"\r\n"
    return data, [(place[first], place[last]) for first, last in ends]


def came_with(offsets: list[int], reads: list[int], places: Places) -> bool:
    """Whether each event has the stamp of its read; reads are numbered by the bytes that had come by then."""
    allowed = [{reads[bisect_left(reads, place)] for place in both} for both in places]
    return len(offsets) == len(allowed) and all(map(set.__contains__, allowed, offsets))


def row_of(data: bytes, cuts: list[int], dialect: Any) -> dict[str, Any]:
    """What the engine makes of these bytes; the stamp of a read is the number of bytes that had come by then."""
    exchange, start = Exchange(b""), 0
    for cut in [*sorted(cuts), len(data)]:
        if data[start:cut] and exchange.response.add(cut, data[start:cut]):
            assert cut == len(data)
        start = cut
    if not exchange.response.complete:
        exchange.response.end_of_stream()
    if not exchange.response.complete:
        exchange.fail(Outcome.TRUNCATED)
    return Answer(exchange, dialect, count_tokens=len).row()


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Without times."""
    return {name: value for name, value in row.items() if not name.endswith("_ns")}


@pytest.mark.parametrize(
    ("kind", "stream", "dialect"),
    [(b"text/event-stream", events(), CHAT), (b"application/x-ndjson", lines(), LINES)],
    ids=["events", "lines"],
)
@settings(max_examples=250)
@given(data=st.data())
def test_any_split_of_the_bytes_gives_the_same_row_and_each_event_the_stamp_of_its_read(kind, stream, dialect, data):
    wire, places = data.draw(wires(kind, data.draw(stream)))
    cuts = sorted(data.draw(st.lists(st.integers(1, len(wire) - 1), max_size=20)))
    row = row_of(wire, cuts, dialect)
    assert plain(row) == plain(row_of(wire, [], dialect))
    assert row["outcome"] == ("ok" if places else "empty")
    assert came_with(row["event_offsets_ns"], [*cuts, len(wire)], places)


@pytest.mark.parametrize(("kind", "stream", "dialect"), [(b"text/event-stream", events(), CHAT),
                                                         (b"application/x-ndjson", lines(), LINES)],
                         ids=["events", "lines"])  # fmt: skip
@settings(max_examples=25)
@given(data=st.data())
def test_one_byte_a_read_gives_each_event_the_stamp_of_its_last_byte(kind, stream, dialect, data):
    wire, places = data.draw(wires(kind, data.draw(stream)))
    row = row_of(wire, list(range(1, len(wire))), dialect)
    assert came_with(row["event_offsets_ns"], list(range(1, len(wire) + 1)), places)


@settings(max_examples=150)
@given(data=st.data())
def test_an_answer_that_breaks_off_anywhere_keeps_the_events_that_were_whole(data):
    wire, places = data.draw(wires(b"text/event-stream", data.draw(events())))
    end = data.draw(st.integers(1, len(wire) - 1))
    row = row_of(wire[:end], [], CHAT)
    assert row["outcome"] in ("ok", "empty", "truncated", "closed_early")
    assert sum(last <= end for _, last in places) <= row["events"] <= sum(first <= end for first, _ in places)


@given(st.binary(max_size=300), st.lists(st.integers(1, 300), max_size=6))
@example(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabcde\r\n", [50])
@example(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", [40, 41])
def test_what_is_no_answer_is_none_wherever_it_is_cut(data, cuts):
    def end(places: list[int]) -> str:
        try:
            return str(row_of_any(data, places)["outcome"])
        except ProtocolError:
            return "protocol_error"

    assert end([min(cut, len(data)) for cut in cuts]) == end([])


def row_of_any(data: bytes, cuts: list[int]) -> dict[str, Any]:
    exchange, start = Exchange(b""), 0
    for cut in [*sorted(cuts), len(data)]:
        if data[start:cut] and exchange.response.add(cut, data[start:cut]):
            break
        start = cut
    if not exchange.response.complete:
        exchange.response.end_of_stream()
    if not exchange.response.complete:
        exchange.fail(Outcome.CLOSED_EARLY)
    return Answer(exchange, CHAT).row()
