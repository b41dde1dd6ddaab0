"""The short way of reading a repeated event gives exactly what the long way gives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.answer import Answer
from runners.load.dialects import form
from runners.load.exchange import Exchange
from runners.load.repeats import Repeat
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
    return Answer(exchange, form(Dialect.OPENAI_CHAT), count_tokens=len).row()


@given(st.lists(st.tuples(CHUNK, st.booleans(), st.integers(0, 3)), max_size=25))
def test_rows_are_the_same_with_and_without_the_short_way(chunks):
    pieces: list[bytes] = []
    for chunk, ascii_only, cut in chunks:
        text = b"data: " + json.dumps(chunk, ensure_ascii=ascii_only).encode() + b"\n\n"
        pieces += [text[:cut], text[cut:]] if cut else [text]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Repeat, "text", lambda self, piece: None)
        long_way = row_of(pieces)
    assert row_of(pieces) == long_way


def test_a_repeated_event_is_recognised_and_a_changed_one_is_not():
    repeat = Repeat()
    repeat.learn(b'data: {"id":1,"content":"one"}\n\n', "one")
    assert repeat.text(b'data: {"id":1,"content":" two"}\n\n') == " two"
    for other in (b'data: {"id":2,"content":"two"}\n\n', b'data: {"id":1,"content":"t\\"wo"}\n\n',
                  b'data: {"id":1,"content":"two"}\n\n\n', b'data: {"id":1,"content":""}\n\n'):  # fmt: skip
        assert repeat.text(other) is None


def test_a_text_that_stands_twice_in_its_event_is_not_learned():
    repeat = Repeat()
    repeat.learn(b'data: {"a":"x","content":"x"}\n\n', "x")
    assert repeat.text(b'data: {"a":"x","content":"y"}\n\n') is None
