"""The short way of reading a repeated event gives exactly what the long way gives."""

import json
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load import answer
from runners.load.dialects import form
from runners.load.exchange import Exchange
from runners.load.repeats import Repeats, repeats
from runners.load.sse import Decoder
from runners.load.stamped import StampedBytes
from runners.spec import Dialect

TEXT = st.one_of(
    st.text(alphabet='ab "\\{}:,.\n\té\u2028', min_size=0, max_size=6),
    st.sampled_from([" token", "content", "a", "null", '"', "\\n", "}", "\x7f", "index"]),
)
CHUNK = st.one_of(
    st.builds(lambda text: {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}, TEXT),
    st.builds(lambda text: {"choices": [{"delta": {"content": text, "reasoning": "x"}}]}, TEXT),
    st.builds(lambda n: {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": n}}, st.integers(0, 9)),
    st.builds(lambda text: {"choices": [{"text": text, "delta": {"content": text}}]}, TEXT),
)


def row_of(pieces: list[bytes]) -> dict[str, object]:
    exchange = Exchange(b"")
    exchange.sent_ns = 1
    exchange.response.add(
        1, b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    for stamp, piece in enumerate([*pieces, b"data: [DONE]\n\n"], 2):
        exchange.response.add(stamp, b"%x\r\n%b\r\n" % (len(piece), piece))
    exchange.response.add(len(pieces) + 3, b"0\r\n\r\n")
    exchange.end_ns = len(pieces) + 3
    row = answer.Answer(exchange, form(Dialect.OPENAI_CHAT), count_tokens=len).row()
    return row | {"event_offsets_ns": row["event_offsets_ns"].tolist()}


@given(st.lists(st.tuples(CHUNK, st.booleans(), st.integers(0, 3)), max_size=25))
def test_rows_are_the_same_with_and_without_the_short_way(chunks):
    pieces: list[bytes] = []
    for chunk, ascii_only, cut in chunks:
        text = b"data: " + json.dumps(chunk, ensure_ascii=ascii_only).encode() + b"\n\n"
        pieces += [text[:cut], text[cut:]] if cut else [text]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answer, "repeats", lambda came, event, text: None)
        long_way = row_of(pieces)
    assert row_of(pieces) == long_way


def repeated(body: bytes, text: str) -> Repeats | None:
    """In a body of which byte ``i`` came at ``i`` ns."""
    event = Decoder(body).next()
    assert event is not None
    each = array("q", range(len(body)))
    return repeats(StampedBytes(body, array("q", (i + 1 for i in each)), each), event, text)


@pytest.mark.parametrize("closing", [b"\n\n", b"\r\n\r\n"])
def test_repeated_events_are_recognised_up_to_the_first_that_is_not(closing):
    event = b'data: {"id":1,"content":"%b"}' + closing
    texts = [f"token {i} \u00fc" for i in range(700)]
    run = [event % text.encode() for text in ["one", *texts]]
    for other in (b'data: {"id":2,"content":"two"}\n\n', event % b't\\"wo', event % b"", event % b"\xff", b"data"):
        found = repeated(b"".join(run) + other + b"".join(run), "one")
        assert found is not None
        assert found.text == "".join(texts)
        assert list(found.stamps_ns) == [len(b"".join(run[: i + 2])) - 1 for i in range(len(texts))]
        assert found.end == len(b"".join(run))


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (b'data: {"a":"%b","content":"%b"}\n\n', "x"),
        (b'data: {"a":"\\u0078","content":"%b"}\n\n', "x"),
        (b'data: {"content":"%b"}\r\r', "x"),
        (b'data: {"content":"%b"}\n\n', "\ud800"),
    ],
)
def test_a_text_whose_place_is_not_certain_is_not_looked_for(event, text):
    assert repeated(event.replace(b"%b", b"x") + event.replace(b"%b", b"y"), text) is None
