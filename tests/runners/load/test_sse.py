"""Events out of bytes: those of the grammar, each with its place."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.sse import MAX_EVENT_BYTES, Decoder, Event, EventTooLarge

LINE = st.sampled_from(
    [
        b"data: a",
        b"data:b",
        b"data",
        b"data:  c",
        b"data: ",
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


Spoken = tuple[bytes, bytes]


def events(data: bytes) -> tuple[list[Spoken], Spoken | None]:
    decoder, found = Decoder(data), []
    while event := decoder.next():
        assert event.end == decoder.at
        found.append((event.name, event.data))
    tail = decoder.tail()
    return found, tail and (tail.name, tail.data)


def by_the_grammar(stream: bytes) -> tuple[list[Spoken], Spoken | None]:
    """The same, one line after the other."""
    lines = re.sub(rb"\r\n?", b"\n", stream.removeprefix(b"\xef\xbb\xbf")).split(b"\n")
    found: list[Spoken] = []
    name, data = b"", list[bytes]()
    for i, line in enumerate(lines):
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
        elif not line and i < len(lines) - 1:
            found += [(name, b"\n".join(data))] if data else []
            name, data = b"", []
    return found, (name, b"\n".join(data)) if data else None


@given(STREAM, st.booleans())
def test_events_are_those_of_the_grammar(stream, bom):
    stream = (b"\xef\xbb\xbf" if bom else b"") + stream
    assert events(stream) == by_the_grammar(stream)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_never_break_the_decoder(stream):
    assert events(stream) == by_the_grammar(stream)


@given(STREAM, st.integers(0, 200))
def test_an_event_is_complete_with_its_closing_line_and_not_before(stream, cut):
    decoder, ends = Decoder(stream), []
    while event := decoder.next():
        ends.append(event.end)
    whole = [end for end in ends if end <= cut]
    split_crlf = stream[cut - 1 : cut + 1] == b"\r\n"  # a CR alone ends a line too
    assert len(events(stream[:cut])[0]) - len(whole) in ((0, 1) if split_crlf else (0,))


@given(STREAM)
def test_crlf_and_cr_mean_the_same_as_lf(stream):
    plain = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert events(plain.replace(b"\n", b"\r\n"))[0] == events(plain)[0]


def test_unicode_line_separators_are_text():
    assert events("data: a\u2028b\u0085c\n\n".encode())[0] == [(b"", "a\u2028b\u0085c".encode())]


@pytest.mark.parametrize("line", [b"x" * 1_000, b"data: " + b"x" * (MAX_EVENT_BYTES // 3) + b"\n"])
def test_an_event_over_the_limit_is_refused_and_those_before_it_are_kept(line):
    decoder = Decoder(b"data: a\n\n" + line * (MAX_EVENT_BYTES // len(line) + 1))
    assert decoder.next() == (b"", b"a", 0, 9)
    with pytest.raises(EventTooLarge):
        decoder.next()


@pytest.mark.parametrize(
    ("line", "data"), [(b"data: ", b""), (b"data:", b""), (b"data:  a", b" a"), (b"data:a", b"a"), (b"data: a ", b"a ")]
)
@pytest.mark.parametrize("closing", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n"])
def test_one_space_behind_the_colon_is_left_out(line, data, closing):
    event = Decoder(line + closing + b"data: next\n\n").next()
    assert event == Event(b"", data, 0, len(line + closing))
