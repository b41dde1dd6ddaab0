"""Ways to an endpoint: several addresses, IPv6, proxies, and what happens when one leads nowhere."""

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from runners.load.answer import Answer
from runners.load.arrivals import ClosedLoop, Span
from runners.load.check import exchange_once
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.outcomes import Outcome
from runners.load.target import Requests, base_endpoint, destination
from runners.load.transport import Destination, connect_error
from runners.spec import SpecError, Target, Timeouts
from tests.services.misbehaving import Server, good, hang_mid_stream, serving
from tests.services.proxy import proxying

TIMEOUTS = Timeouts(connect_s=1.0, first_byte_s=0.5, idle_s=0.5, total_s=3.0)
IP_LOCAL_PORT_RANGE = 51
V4, V6 = socket.AF_INET, socket.AF_INET6


def ask(where: Destination, target: Target, prompt: str = "hi") -> dict[str, object]:
    requests = Requests(where.endpoint, target)
    exchange = exchange_once(where, TIMEOUTS, requests.build(prompt, 8), 8)
    return Answer(exchange, requests.form).row()


def reach(target: Target) -> dict[str, object]:
    return ask(destination(base_endpoint(target.url), target), target)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def has_ipv6() -> bool:
    try:
        socket.create_server(("::1", 0), family=V6).close()
    except OSError:
        return os.environ.get("REQUIRE_ALL") == "1"
    return True


@contextmanager
def black_hole() -> Iterator[int]:
    """A port whose handshakes stay unanswered, as behind a firewall that drops: its backlog is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        time.sleep(0.05)
        try:
            yield port
        finally:
            for filler in fillers:
                filler.close()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving({"m": good}) as running:
        yield running


def at(server: Server, *addresses: tuple[socket.AddressFamily, tuple[object, ...]]) -> Destination:
    return Destination(base_endpoint(server.url), addresses)


# several addresses


def test_an_ipv6_address_without_a_route_gives_way_to_ipv4_and_the_row_says_which_was_used(server):
    nowhere = (V6, ("2001:db8::1", server.port, 0, 0))
    where = at(server, nowhere, (V4, ("127.0.0.1", server.port)))
    row = ask(where, Target(server.url, "m"))
    assert (row["outcome"], row["address"]) == ("ok", "127.0.0.1")
    assert row["connect_ns"] < 1.0e9


def test_a_refused_address_gives_way_to_the_next(server):
    where = at(server, (V4, ("127.0.0.1", free_port())), (V4, ("127.0.0.1", server.port)))
    assert ask(where, Target(server.url, "m"))["outcome"] == "ok"


def test_an_address_that_swallows_packets_takes_its_share_of_the_limit_and_only_once(server):
    with black_hole() as port:
        where = at(server, (V4, ("127.0.0.1", port)), (V4, ("127.0.0.1", server.port)))
        first = ask(where, Target(server.url, "m"))
        second = ask(where, Target(server.url, "m"))
    assert (first["outcome"], second["outcome"]) == ("ok", "ok")
    assert 0.45e9 < first["connect_ns"] < 0.9e9
    assert second["connect_ns"] < 0.4e9  # the address that answered is tried first from then on


def test_one_address_that_swallows_packets_is_a_connect_timeout_at_the_limit(server):
    with black_hole() as port:
        began = time.monotonic()
        row = ask(at(server, (V4, ("127.0.0.1", port))), Target(server.url, "m"))
    assert row["outcome"] == "timeout_connect"
    assert 0.9 < time.monotonic() - began < 5.0


def test_when_every_address_refuses_the_request_is_refused(server):
    where = at(server, *((V4, ("127.0.0.1", free_port())) for _ in range(3)))
    assert ask(where, Target(server.url, "m"))["outcome"] == "connect_refused"


def test_an_ipv6_literal_is_measured_like_any_other():
    if not has_ipv6():
        pytest.skip("this machine has no IPv6 loopback")
    with serving({"m": good}) as behind, socket.create_server(("::1", 0), family=V6) as listener:
        port = listener.getsockname()[1]
        behind.accept_from(listener)
        row = reach(Target(f"http://[::1]:{port}/", "m"))
        host = behind.heads[0].split(b"Host: ")[1].split(b"\r\n")[0]
    assert (row["outcome"], row["address"]) == ("ok", "::1")
    assert host == f"[::1]:{port}".encode()


def test_a_host_is_looked_up_once_so_a_resolver_that_fails_later_stops_nothing(server, monkeypatch):
    target = Target(server.url.replace("127.0.0.1", "localhost"), "m")
    where = destination(base_endpoint(target.url), target)

    def fails(*arguments: object, **more: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    monkeypatch.setattr(socket, "getaddrinfo", fails)
    assert [ask(where, target)["outcome"] for _ in range(3)] == ["ok"] * 3


# proxies


def test_proxies_of_the_environment_and_netrc_are_never_used(server, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login user password canary-password\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    with proxying() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        row = reach(Target(server.url, "m"))
    assert (row["outcome"], proxy.asked) == ("ok", [])
    assert not any(b"Authorization" in head or b"canary" in head for head in server.heads)


def test_a_configured_proxy_is_tunnelled_through(server):
    with proxying() as proxy:
        target = Target(server.url, "m", proxy=proxy.url)
        requests = Requests(base_endpoint(server.url), target, key="sk-secret")
        exchange = exchange_once(destination(requests.endpoint, target), TIMEOUTS, requests.build("hi", 8), 8)
    row = Answer(exchange, requests.form).row()
    assert row["outcome"] == "ok"
    assert proxy.asked == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
    assert b"Authorization: Bearer sk-secret" in server.heads[0]


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway", "garbage"])
def test_what_a_proxy_refuses_is_counted_apart_from_the_endpoint(server, status):
    with proxying(status) as proxy:
        row = reach(Target(server.url, "m", proxy=proxy.url))
    assert row["outcome"] == "proxy_error"
    assert status in row["detail"]
    assert server.requests == []


def test_a_proxy_that_is_not_there_is_a_proxy_error(server):
    row = reach(Target(server.url, "m", proxy=f"http://127.0.0.1:{free_port()}"))
    assert (row["outcome"], row["detail"]) == ("proxy_error", "the proxy cannot be reached: connection refused")


@pytest.mark.parametrize("url", ["http://user:pass@proxy:3128", "http://169.254.169.254/", "http://"])
def test_a_proxy_address_that_cannot_be_used_names_the_field(server, url):
    with pytest.raises(SpecError, match=r"target\.proxy"):
        reach(Target(server.url, "m", proxy=url))


# limits of this machine


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS])
def test_what_this_machine_runs_out_of_is_not_the_endpoints_fault(code):
    assert connect_error(OSError(code, os.strerror(code))).outcome is Outcome.CLIENT_SATURATED


def test_running_out_of_file_descriptors_stops_the_run_and_says_the_limit(server):
    import resource

    where = at(server, (V4, ("127.0.0.1", server.port)))
    request = Requests(where.endpoint, Target(server.url, "m")).build("hi", 8)
    finished: list[Exchange] = []
    engine = Engine(where, TIMEOUTS, finished.append)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 4, hard))
    try:
        engine.drive(ClosedLoop(64, Span(0, requests=500)), lambda _: Exchange(request), drain_s=3)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        engine.close()
    saturated = [exchange for exchange in finished if exchange.outcome is Outcome.CLIENT_SATURATED]
    assert engine.stop_reason == "client_saturated"
    assert "ulimit -n" in saturated[0].detail


def test_running_out_of_local_ports_stops_the_run_and_says_what_to_widen(server, monkeypatch):
    class Narrow(socket.socket):
        """May take its local port from three only, so that the kernel itself runs out."""

        def connect_ex(self, address: object) -> int:
            self.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, ports)
            return super().connect_ex(address)

    first = free_port() // 8 * 8
    ports = struct.pack("HH", first, first + 2)
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, ports)
        except OSError:
            if os.environ.get("REQUIRE_ALL") == "1":
                raise
            pytest.skip("a socket's range of local ports needs Linux 6.3")
    server.scripts["m"] = hang_mid_stream
    where = at(server, (V4, ("127.0.0.1", server.port)))
    request = Requests(where.endpoint, Target(server.url, "m")).build("hi", 8)
    finished: list[Exchange] = []
    engine = Engine(where, TIMEOUTS, finished.append)
    monkeypatch.setattr(socket, "socket", Narrow)
    engine.drive(ClosedLoop(8, Span(0, requests=500)), lambda _: Exchange(request), drain_s=3)
    engine.close()
    saturated = [exchange for exchange in finished if exchange.outcome is Outcome.CLIENT_SATURATED]
    assert engine.stop_reason == "client_saturated"
    assert "ip_local_port_range" in saturated[0].detail
    assert len(finished) < 20


def test_a_server_that_takes_no_bytes_is_a_write_timeout():
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        where = destination(base_endpoint(url))
        row = ask(where, Target(url, "m"), prompt="x" * 30_000_000)
    assert (row["outcome"], row["first_token_ns"]) == ("timeout_write", None)


def test_requests_end_cancelled_when_the_grace_after_the_last_send_is_over(server):
    server.scripts["m"] = lambda wire: (wire.head(), wire.words("a"), time.sleep(0.6))
    where = at(server, (V4, ("127.0.0.1", server.port)))
    request = Requests(where.endpoint, Target(server.url, "m")).build("hi", 8)
    finished: list[Exchange] = []
    engine = Engine(where, replace(TIMEOUTS, idle_s=3.0), finished.append)
    engine.drive(ClosedLoop(3, Span(0, requests=3)), lambda _: Exchange(request), drain_s=0.2)
    engine.close()
    rows = [Answer(exchange, Requests(where.endpoint, Target(server.url)).form).row() for exchange in finished]
    assert [(row["outcome"], row["events"]) for row in rows] == [("cancelled", 1)] * 3
