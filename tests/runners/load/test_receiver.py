"""What the compiled receiver keeps and reports comes to the same as the same bytes read one by one."""

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.framing import MAX_BODY_BYTES, ProtocolError, Response, TooManyBytes
from runners.load.receiver import SO_TIMESTAMPNS, Received, Receiver

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SHARDS = st.sampled_from(
    [b"1\r\na\r\n", b"1\r\na\r\n2\r\nbc\r\n", b"0\r\n\r\n", b"\r\n", b"2", b"A\r\n0123456789\r\n", b"3;n=v\r\nabc\r\n",
     b"0", b"00000002\r\nab\r\n", b"000000002\r\nab\r\n", b"ffffffff\r\n", b"g", b"2\r\nabc", b"2\r\nab\r\n0\r\n\r\n"]
)  # fmt: skip


class Pair:
    """A socket whose other end the receiver reads as the engine does."""

    def __init__(self, receiver: Receiver, server: socket.socket, client: socket.socket) -> None:
        self.receiver, self.server, self.client = receiver, server, client
        self.response = Response()
        self.reports: list[Received] = []

    def send(self, data: bytes) -> None:
        self.server.send(data)
        self.look()

    def look(self) -> None:
        for received in self.receiver.wait(1000, 0):
            self.reports.append(received)
            self.take()
            if received.data:
                self.response.add(received.stamp_ns, received.data)
                if self.response.between_chunks:
                    self.receiver.keep_chunks(received.fd, self.response.bytes_left)

    def take(self) -> None:
        kept = self.receiver.take(self.client.fileno())
        if kept:
            self.response.add_chunks(kept)


@contextmanager
def wires(count: int) -> Iterator[list[Pair]]:
    """So many of one receiver."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        epoll = stack.enter_context(select.epoll())
        receiver = Receiver(epoll.fileno())
        found = list[Pair]()
        for _ in range(count):
            client = stack.enter_context(socket.create_connection(listener.getsockname()))
            server, _ = listener.accept()
            stack.callback(server.close)
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            epoll.register(client.fileno(), select.EPOLLIN | select.EPOLLRDHUP)
            receiver.read_from(client.fileno())
            found.append(Pair(receiver, server, client))
        yield found


@contextmanager
def pair() -> Iterator[Pair]:
    with wires(1) as (wire,):
        yield wire


def alone(pieces: list[bytes]) -> tuple[Response, type[Exception] | None]:
    response = Response()
    try:
        for stamp, piece in enumerate(pieces):
            response.add(stamp, piece)
    except (ProtocolError, TooManyBytes) as error:
        return response, type(error)
    return response, None


@given(st.lists(SHARDS, max_size=12))
def test_kept_and_reported_reads_come_to_what_the_reads_are_alone(shards):
    expected, error = alone([HEAD, *shards])
    with pair() as wire:
        found: type[Exception] | None = None
        with suppress(ProtocolError):
            for shard in [HEAD, *shards]:
                found = ProtocolError
                wire.send(shard)
                found = None
        wire.take()
    assert found is error
    response = wire.response
    assert (response.complete, response.surplus, response.bytes_in) == (
        expected.complete,
        expected.surplus,
        expected.bytes_in,
    )
    body, whole = response.body(), expected.body()
    assert (body.data, body.ends) == (whole.data, whole.ends)
    stamps_ns, pieces = zip(*[(0, b""), *body.reads()], strict=True)
    assert list(pieces[1:]) == [piece for _, piece in whole.reads()]
    assert list(stamps_ns) == sorted(stamps_ns)


@given(st.lists(SHARDS, max_size=12))
def test_decrypted_reads_that_are_kept_come_to_what_the_reads_are_alone(shards):
    expected, error = alone([HEAD, *shards])
    response, found, kept = Response(), None, 0
    try:
        for stamp, shard in enumerate([HEAD, *shards]):
            if response.between_chunks and response.keep(stamp, shard):
                kept += 1
            else:
                response.add(stamp, shard)
    except ProtocolError as caught:
        found = type(caught)
    assert found is error
    assert kept >= sum(shard == b"1\r\na\r\n" for shard in shards[:1])
    assert (response.complete, response.bytes_in) == (expected.complete, expected.bytes_in)
    body, whole = response.body(), expected.body()
    assert (body.data, body.ends, body.stamps_ns) == (whole.data, whole.ends, whole.stamps_ns)


def test_a_stream_of_chunks_is_reported_at_its_head_and_its_end_alone_and_each_read_keeps_its_stamp():
    sent_ns = []
    with pair() as wire:
        wire.send(HEAD)
        for number in range(300):
            sent_ns.append(time.monotonic_ns())
            wire.send(b"5\r\n%05d\r\n" % number)
        wire.send(b"0\r\n\r\n")
        delays_ns = wire.receiver.delays_ns()
    assert [received.data for received in wire.reports] == [HEAD, b"0\r\n\r\n"]
    assert wire.response.complete
    body = wire.response.body()
    assert body.data == b"".join(b"%05d" % number for number in range(300))
    stamps_ns = [body.stamp_ns(5 * number + 5) for number in range(300)]
    late_ns = [stamp - sent for stamp, sent in zip(stamps_ns, sent_ns, strict=True)]
    assert min(late_ns) >= -50_000
    assert sorted(late_ns)[150] < 1_000_000
    assert len(delays_ns) == 302
    assert min(delays_ns) >= 0


def test_what_would_go_over_the_limit_is_reported_instead_of_kept():
    with pair() as wire:
        wire.send(HEAD)
        wire.receiver.keep_chunks(wire.client.fileno(), 12)
        wire.send(b"1\r\na\r\n")
        wire.send(b"1\r\nb\r\n")
        wire.send(b"1\r\nc\r\n")
    assert [received.data for received in wire.reports] == [HEAD, b"1\r\nc\r\n"]
    assert (wire.response.body().data, wire.response.bytes_left) == (b"abc", MAX_BODY_BYTES - len(HEAD) - 18)


def test_large_answers_and_many_reads_are_kept_whole():
    block = b"%x\r\n%b\r\n" % (60_000, b"x" * 60_000)
    with pair() as wire:
        wire.client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        wire.send(HEAD)
        for _ in range(50):
            wire.send(block)
        while wire.response.bytes_in < len(HEAD) + 50 * len(block):  # a block may come in two reads
            wire.look()
            wire.take()
        wire.send(b"0\r\n\r\n")
    assert wire.response.complete
    assert wire.response.body().data == b"x" * 3_000_000


def test_a_reset_is_reported_with_what_was_kept_before_it():
    with pair() as wire:
        wire.send(HEAD)
        wire.send(b"1\r\na\r\n")
        wire.server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        wire.server.close()
        wire.look()
    assert [(received.data, received.error, received.kept) for received in wire.reports[1:]] == [(b"", 104, True)]
    assert wire.response.body().data == b"a"


def test_an_end_of_stream_is_reported_as_no_bytes():
    with pair() as wire:
        wire.server.shutdown(socket.SHUT_WR)
        wire.look()
    assert [(received.data, received.error) for received in wire.reports] == [(b"", 0)]


def test_a_descriptor_that_is_forgotten_is_only_told_of_and_gives_nothing_old_back():
    with pair() as wire:
        fd = wire.client.fileno()
        wire.send(HEAD)
        wire.send(b"1\r\na\r\n")
        wire.receiver.forget(fd)
        wire.send(b"1\r\nb\r\n")
        assert wire.receiver.take(fd) is None
        assert [received.data for received in wire.reports] == [HEAD, None]
        wire.receiver.read_from(fd)
        received = wire.receiver.read(fd)
        assert received is not None
        assert received.data == b"1\r\nb\r\n"
        assert wire.receiver.read(fd) is None


@pytest.mark.parametrize("until_s", [0.0, 0.05])
def test_waiting_ends_at_its_time_although_chunks_keep_coming(until_s):
    with pair() as wire:
        wire.send(HEAD)
        wire.server.send(b"1\r\na\r\n")
        begin_ns = time.monotonic_ns()
        assert wire.receiver.wait(50, begin_ns + round(until_s * 1e9)) == []
        assert (time.monotonic_ns() - begin_ns) / 1e9 >= until_s
        assert wire.receiver.asleep_ns >= until_s * 0.8e9


ENDLESS_NS = 2**62


def gathered(first: Pair, gather_ns: int, until_ns: int, *later: Callable[[], object]) -> list[bytes | None]:
    """What one wait tells: ``first`` has sent "a", each of ``later`` happens 5 ms after the one before."""

    def go_on() -> None:
        for step in later:
            time.sleep(0.005)
            step()

    first.server.send(b"a")
    thread = threading.Thread(target=go_on)
    thread.start()
    told = first.receiver.wait(1000, until_ns, gather_ns)
    thread.join()
    return [received.data for received in told]


def test_what_comes_of_others_meanwhile_is_told_together_with_the_first():
    with wires(3) as (a, b, c):
        told = gathered(a, 300_000_000, ENDLESS_NS, lambda: b.server.send(b"b"), lambda: c.server.send(b"c"))
        assert told == [b"a", b"b", b"c"]
        assert gathered(a, 0, ENDLESS_NS, lambda: b.server.send(b"b")) == [b"a"]
        assert [received.data for received in a.receiver.wait(1000, ENDLESS_NS)] == [b"b"]


def test_gathering_lasts_from_the_first_arrival_on_however_late_it_is_read():
    with wires(2) as (a, b):
        a.server.send(b"a")
        time.sleep(0.2)
        begin_ns = time.monotonic_ns()
        (first,) = a.receiver.wait(1000, ENDLESS_NS, 100_000_000)
        assert time.monotonic_ns() - begin_ns < 90_000_000
        assert first.stamp_ns <= begin_ns - 150_000_000
        begin_ns = time.monotonic_ns()
        assert gathered(b, 60_000_000, ENDLESS_NS) == [b"a"]
        assert time.monotonic_ns() - begin_ns >= 60_000_000


def test_gathering_ends_when_something_is_due_or_nothing_can_be_gathered():
    minute_ns = 60_000_000_000
    with wires(2) as (a, b):
        assert gathered(a, minute_ns, time.monotonic_ns() + 20_000_000) == [b"a"]
        assert gathered(a, minute_ns, ENDLESS_NS, lambda: b.server.close()) == [b"a", b""]
    with wires(2) as (a, b):  # the same once more: what it means depends on what the first led to
        assert gathered(a, minute_ns, ENDLESS_NS, lambda: a.server.send(b"b")) == [b"a"]
        assert [received.data for received in a.receiver.wait(1000, ENDLESS_NS)] == [b"b"]
        a.receiver.forget(b.client.fileno())  # such as an alarm
        assert gathered(a, minute_ns, ENDLESS_NS, lambda: b.server.send(b"b")) == [b"a", None]


def test_as_many_are_gathered_as_can_be_told_at_once():
    with wires(70) as all_of_them:
        for wire in all_of_them:
            wire.server.send(b"x")
        receiver = all_of_them[0].receiver
        assert [len(receiver.wait(1000, ENDLESS_NS, 60_000_000_000)), len(receiver.wait(1000, 0))] == [64, 6]
