"""Events out of bytes: whatever the bytes are split into, the same events come out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.sse import MAX_EVENT_BYTES, Decoder, EventTooLarge

LINE = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data:  c",
        b"event: error",
        b"id: 7",
        b": note",
        b"",
        b"",
        b"foo: x",
        b"data: \xc3\xa9\xe2\x80\xa8",
    ]
)
END = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAM = st.lists(st.tuples(LINE, END), max_size=30).map(lambda parts: b"".join(line + end for line, end in parts))


def events(data: bytes, cuts: list[int]) -> tuple[list[tuple[bytes, bytes]], object]:
    decoder, found, start = Decoder(), [], 0
    for read, cut in enumerate([*sorted(cuts), len(data)]):
        found += [(event.name, event.data) for event in decoder.feed(data[start:cut], read)]
        start = cut
    return found, decoder.tail()


@given(st.data(), STREAM, st.booleans())
def test_any_split_of_the_bytes_gives_the_same_events(data, stream, bom):
    stream = (b"\xef\xbb\xbf" if bom else b"") + stream
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    assert events(stream, cuts) == events(stream, [])


@given(st.binary(max_size=400), st.lists(st.integers(0, 400), max_size=8))
def test_arbitrary_bytes_never_break_the_decoder(stream, cuts):
    assert events(stream, [min(cut, len(stream)) for cut in cuts]) == events(stream, [])


@given(STREAM)
def test_crlf_and_cr_mean_the_same_as_lf(stream):
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert events(plain.replace(b"\n", b"\r\n"), [])[0] == events(plain, [])[0]


def test_an_event_carries_the_read_in_which_its_blank_line_came():
    decoder = Decoder()
    assert decoder.feed(b"data: a\n", 0) == []
    assert [event.read for event in decoder.feed(b"\ndata: b\n\n", 1)] == [1, 1]


def test_unicode_line_separators_are_text():
    assert events("data: a\u2028b\u0085c\n\n".encode(), [])[0] == [(b"", "a\u2028b\u0085c".encode())]


def test_an_event_over_the_limit_is_refused_however_it_arrives():
    decoder = Decoder()
    with pytest.raises(EventTooLarge):
        for read in range(5_000):
            decoder.feed(b"x" * 1_000, read)
    decoder = Decoder()
    with pytest.raises(EventTooLarge):
        for read in range(5):
            decoder.feed(b"data: " + b"x" * (MAX_EVENT_BYTES // 3) + b"\n", read)
