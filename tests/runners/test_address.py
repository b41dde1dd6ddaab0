import socket
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.address import DnsError, PolicyBlocked, UrlError, denied, parse_endpoint, resolve
from runners.load.outcomes import Outcome


@pytest.mark.parametrize(
    ("url", "rebuilt", "parts"),
    [
        ("http://gpu-1:8000", "http://gpu-1:8000", ("http", "gpu-1", 8000, "", False)),
        ("https://API.Example.com/v1/", "https://api.example.com/v1", ("https", "api.example.com", 443, "/v1", True)),
        ("http://127.0.0.1:80", "http://127.0.0.1", ("http", "127.0.0.1", 80, "", False)),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1", ("http", "::1", 8080, "/v1", False)),
        (" HTTP://localhost ", "http://localhost", ("http", "localhost", 80, "", False)),
        ("https://bücher.example", "https://xn--bcher-kva.example", ("https", "xn--bcher-kva.example", 443, "", True)),
        ("http://model_server:1", "http://model_server:1", ("http", "model_server", 1, "", False)),
    ],
)
def test_a_url_is_taken_apart_and_rebuilt_from_its_parts(url: str, rebuilt: str, parts: tuple[Any, ...]) -> None:
    endpoint = parse_endpoint(url)
    assert (endpoint.scheme, endpoint.host, endpoint.port, endpoint.base_path, endpoint.tls) == parts
    assert endpoint.url == rebuilt
    assert parse_endpoint(endpoint.url) == endpoint


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http+unix://%2Frun%2Fllm.sock", "http:// or https://"),
        ("unix:///run/llm.sock", "http:// or https://"),
        ("gpu-1:8000", "http:// or https://"),
        ("", "http:// or https://"),
        ("file:///etc/passwd", "http:// or https://"),
        ("http://[fe80::1%25eth0]/", "zone ids"),
        ("http://%6c%6f/", "encoded names"),
        ("http://key:secret@host/v1", "API key field"),
        ("http://key@host/v1", "API key field"),
        ("http://host/v1#frag", "base address"),
        ("http://host/v1?key=secret", "base address"),
        ("http://host/v1#", "base address"),
        ("http://:8000/", "no host"),
        ("http://host:99999", "malformed"),
        ("http://host:0", "Port 0"),
        ("http://host:abc", "malformed"),
        ("http://[::1", "malformed"),
        ("http://[gggg::]/", "malformed"),
        ("http://[v1.a:b]/", "host name"),
        ("http://[::1]x:80/", "malformed|host name"),
        ("http://ho st/", "spaces"),
        ("http://host/\r\nX-Injected: 1", "spaces"),
        ("http://host\x00/", "control"),
        ("http://-bad-.example/", "host name"),
        ("http://a..b/", "host name"),
        ("http://" + "a" * 300 + "/", "host name"),
    ],
)
def test_a_url_that_cannot_be_measured_is_refused_with_the_fix(url: str, words: str) -> None:
    with pytest.raises(UrlError, match=words) as caught:
        parse_endpoint(url)
    assert "secret" not in str(caught.value)


def test_a_backslash_before_an_at_sign_does_not_move_the_host() -> None:
    endpoint = parse_endpoint("http://127.0.0.1:1\\@example.com/")
    assert (endpoint.host, endpoint.port) == ("127.0.0.1", 1)
    assert endpoint.url == "http://127.0.0.1:1/@example.com"


METADATA_FORMS = [
    "169.254.169.254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::",
    "::169.254.169.254",
    "::ffff:0:169.254.169.254",
    "2001:0:a9fe:a9fe::1",  # Teredo, server
    "2001:0:4136:e378:8000:63bf:5601:5601",  # Teredo, client (inverted bits)
]


@pytest.mark.parametrize(
    "address",
    [
        *METADATA_FORMS,
        "fe80::1",
        "fe80::1%lo",
        "100.100.100.200",
        "168.63.129.16",
        "fd00:ec2::254",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",  # noqa: S104
        "::",
        "255.255.255.255",
        "::ffff:0.0.0.0",
    ],
)
def test_link_local_metadata_multicast_and_unspecified_addresses_are_always_denied(address: str) -> None:
    assert denied(address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.2", "::ffff:127.0.0.1", "fd12::1", "203.0.113.5", "2600::1"]
)
def test_loopback_private_and_public_addresses_may_be_contacted(address: str) -> None:
    assert denied(address) is None


@pytest.mark.parametrize("address", METADATA_FORMS)
def test_a_literal_metadata_address_is_refused_when_entered_and_when_resolved(address: str) -> None:
    literal = f"[{address}]" if ":" in address else address
    with pytest.raises(PolicyBlocked, match="never contacted"):
        parse_endpoint(f"http://{literal}/")
    with pytest.raises(PolicyBlocked):
        resolve(address, 80)


@pytest.mark.parametrize("name", ["metadata.google.internal", "METADATA.google.internal."])
def test_a_metadata_name_is_refused_without_a_lookup(name: str) -> None:
    with pytest.raises(PolicyBlocked):
        parse_endpoint(f"http://{name}/")
    with pytest.raises(PolicyBlocked):
        resolve(name, 80, lookup=_fails_if_called)


def test_a_shorthand_of_the_metadata_address_is_blocked_by_what_it_resolves_to() -> None:
    assert parse_endpoint("http://2852039166/").host == "2852039166"
    with pytest.raises(PolicyBlocked):
        resolve("2852039166", 80)


def test_one_denied_address_among_many_blocks_the_host() -> None:
    with pytest.raises(PolicyBlocked) as caught:
        resolve("mixed.example", 80, lookup=_answers(["203.0.113.5", "169.254.169.254"]))
    assert caught.value.outcome is Outcome.POLICY_BLOCKED


def test_a_name_that_answers_differently_the_second_time_keeps_its_first_checked_address() -> None:
    lookup = _answers(["203.0.113.5"], ["169.254.169.254"])
    pinned = resolve("rebinding.example", 8000, lookup=lookup)
    assert pinned == [(socket.AF_INET, ("203.0.113.5", 8000))]
    with pytest.raises(PolicyBlocked):
        resolve("rebinding.example", 8000, lookup=lookup)


def test_what_resolve_returns_can_be_connected_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        family, sockaddr = resolve("localhost" if _localhost_is_v4() else "127.0.0.1", server.getsockname()[1])[-1]
        with socket.socket(family) as client:
            client.settimeout(2)
            client.connect(sockaddr)
            assert client.getpeername() == server.getsockname()


def test_a_name_that_does_not_exist_is_a_dns_error_without_the_resolvers_own_text() -> None:
    with pytest.raises(DnsError, match="does not resolve") as caught:
        resolve(
            "nothing-here.invalid", 80, lookup=_fails(socket.gaierror(socket.EAI_NONAME, "Name or service unknown"))
        )
    assert caught.value.outcome is Outcome.DNS_ERROR
    assert "Name or service" not in str(caught.value)


def test_the_system_resolver_refuses_a_reserved_name_as_a_dns_error() -> None:
    with pytest.raises(DnsError):
        resolve("nothing-here.invalid", 80)


def test_a_silent_dns_server_asks_to_try_again() -> None:
    with pytest.raises(DnsError, match="Try again"):
        resolve("host.example", 80, lookup=_fails(socket.gaierror(socket.EAI_AGAIN, "temporary")))


def test_a_name_too_long_for_dns_is_a_dns_error() -> None:
    with pytest.raises(DnsError):
        resolve("a" * 70 + ".example", 80)


@given(st.text(max_size=60), st.sampled_from(["http://", "https://", "", "http:/", "//"]))
def test_any_text_is_either_taken_apart_or_refused(text: str, start: str) -> None:
    try:
        url = parse_endpoint(start + text).url
    except (UrlError, PolicyBlocked):
        return
    assert parse_endpoint(url).url == url


def _answers(*answers: list[str]) -> Callable[..., list[Any]]:
    left = list(answers)

    def lookup(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in left.pop(0)]

    return lookup


def _fails(error: Exception) -> Callable[..., list[Any]]:
    def lookup(*_: Any, **__: Any) -> list[Any]:
        raise error

    return lookup


def _fails_if_called(*_: Any, **__: Any) -> list[Any]:
    raise AssertionError("looked up")


def _localhost_is_v4() -> bool:
    return any(family is socket.AF_INET for family, *_ in socket.getaddrinfo("localhost", 0))
