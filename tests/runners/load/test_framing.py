"""HTTP framing: any split of the bytes gives the same body, and each piece knows its read."""

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.framing import MAX_BODY_BYTES, ProtocolError, Response, TooManyBytes

PIECES = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=12)


def chunked(pieces: list[bytes], trailer: bytes = b"") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n" + trailer + b"\r\n"


def read(data: bytes, cuts: list[int]) -> Response:
    response, start = Response(), 0
    for cut in [*sorted(cuts), len(data)]:
        if data[start:cut]:
            response.add(cut, data[start:cut])
        start = cut
    return response


@given(st.data(), PIECES, st.sampled_from([b"", b"X-T: 1\r\n"]))
def test_any_split_of_a_chunked_answer_gives_the_same_body_and_ends_with_its_last_byte(data, pieces, trailer):
    stream = chunked(pieces, trailer)
    cuts = data.draw(st.lists(st.integers(1, len(stream) - 1), max_size=15))
    response = read(stream, cuts)
    assert response.complete
    assert response.body().data == b"".join(pieces)
    assert response.status == 200
    assert not read(stream[:-1], [cut for cut in cuts if cut < len(stream) - 1]).complete


@given(st.data(), st.binary(max_size=200))
def test_a_body_of_known_length_ends_there(data, body):
    stream = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6))
    response = read(stream, cuts)
    assert response.complete
    assert response.body().data == body


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=5))
def test_arbitrary_bytes_end_in_an_answer_or_a_protocol_error(data, cuts):
    try:
        response = read(data, [min(cut, len(data)) for cut in cuts])
        response.end_of_stream()
    except (ProtocolError, TooManyBytes):
        return
    assert response.bytes_in == len(data)


@given(st.data(), PIECES)
def test_each_byte_of_a_body_has_the_stamp_of_the_read_it_came_in(data, pieces):
    stream = chunked(pieces)
    cuts = sorted({*data.draw(st.lists(st.integers(1, len(stream) - 1), max_size=15)), len(stream)})
    body, place, sizes = read(stream, cuts).body(), stream.index(b"\r\n\r\n") + 4, []
    for piece in pieces:
        place += len(b"%x\r\n" % len(piece))
        sizes += [next(cut for cut in cuts if cut > place + i) for i in range(len(piece))]
        place += len(piece) + 2
    assert [body.stamp_ns(size) for size in range(1, len(body.data) + 1)] == sizes


CHUNKED_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SHARDS = st.sampled_from(
    [b"1\r\na\r\n", b"0\r\n\r\n", b"0\r\n", b"\r\n", b"\r", b"\n", b"2", b"a", b"A: b\r\n", b"x;", b"1;n=v\r\nb\r\n",
     b'3;n="q v"\r\nabc\r\n', b"00001\r\n", b" ", b"g", b"\x00", b";", b"ffffffffffffffff", b"4\r\n\r\n0\r\n\r\n"]
)  # fmt: skip


class Judge:
    """What llhttp makes of the same bytes."""

    def __init__(self, stream: bytes) -> None:
        self.body, self.complete, self.broken = b"", False, False
        parser = httptools.HttpResponseParser(self)
        try:
            parser.feed_data(stream)
        except httptools.HttpParserError:
            self.broken = not self.complete

    def on_body(self, body: bytes) -> None:
        self.body += b"" if self.complete else body

    def on_message_complete(self) -> None:
        self.complete = True


@given(st.lists(SHARDS, max_size=8), st.integers(1, 5))
def test_chunks_mean_what_llhttp_takes_them_for(shards, step):
    stream = CHUNKED_HEAD + b"".join(shards)
    judge, response = Judge(stream), Response()
    try:
        for start in range(0, len(stream), step):
            response.add(start, stream[start : start + step])
    except ProtocolError:
        assert not judge.complete
    else:
        assert response.complete == judge.complete
    assert response.body().data == judge.body


def test_each_piece_of_body_names_the_read_it_came_in():
    head, *rest = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n", b"1\r\nb\r\n0\r\n\r\n")
    response = Response()
    for stamp, data in enumerate([head, *rest]):
        response.add(stamp * 10, data)
    body = response.body()
    assert (body.data, [body.stamp_ns(size) for size in (1, 2)]) == (b"ab", [10, 20])


def test_a_close_ends_only_a_body_without_a_length():
    response = read(b"HTTP/1.1 200 OK\r\n\r\nabc", [])
    assert not response.complete
    response.end_of_stream()
    assert response.complete
    cut = read(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", [])
    cut.end_of_stream()
    assert not cut.complete


def test_an_endless_body_is_cut_at_the_limit():
    response = Response()
    response.add(1, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    block = b"%x\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20))
    with pytest.raises(TooManyBytes):
        for stamp in range(2 + MAX_BODY_BYTES // (1 << 20)):
            response.add(stamp, block)


@pytest.mark.parametrize("behind", [b"HTTP/1.1 500 No\r\nDate: x\r\n\r\n", b"garbage", b"x"])
@pytest.mark.parametrize("cut", range(-9, 1))
def test_bytes_behind_the_last_chunk_do_not_hide_the_end_wherever_the_reads_part(behind, cut):
    response = Response()
    response.add(1, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    whole = b"1\r\na\r\n1\r\nb\r\n0\r\n\r\n"
    first, second = (whole[:cut], whole[cut:] + behind) if cut else (whole + behind, b"")
    response.add(2, first)
    if second:
        response.add(3, second)
    assert response.complete
    assert response.surplus
    assert response.body().data == b"ab"
    assert (response.status, list(response.headers)) == (200, [b"transfer-encoding"])
