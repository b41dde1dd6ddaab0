"""Where an endpoint is: its URL taken apart once, its host resolved once, and the addresses that are never contacted.

Connect to what ``resolve`` returns and to nothing else: a name that is looked up a second time may answer differently.
Private and loopback addresses are allowed, because that is where most model servers are.
"""

import ipaddress
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from runners.load.outcomes import Outcome

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Address family and the tuple that ``socket.connect`` takes.
Pinned = tuple[socket.AddressFamily, tuple[Any, ...]]

_DEFAULT_PORT = {"http": 80, "https": 443}
_HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")
_HOST_NAME_MAX = 253
_HOST_AND_PORT = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(:\d*)?")
_MALFORMED = "The URL's host or port is malformed. Write it as http://host:8000 or http://[::1]:8000."
_CONTROL_OR_SPACE = re.compile(r"[\x00-\x20\x7f-\xa0\u2028\u2029]")

#: Cloud metadata services hand out credentials to whoever can reach them.
_METADATA_NAMES = frozenset(
    {"metadata.google.internal", "metadata.goog", "instance-data.ec2.internal", "metadata.tencentyun.com"}
)
_DENIED_NETWORKS = tuple(
    (ipaddress.ip_network(network), why)
    for network, why in (
        ("169.254.0.0/16", "link-local, where cloud metadata services are"),
        ("fe80::/10", "link-local"),
        ("100.100.100.200/32", "a cloud metadata service"),
        ("168.63.129.16/32", "a cloud metadata service"),
        ("192.0.0.192/32", "a cloud metadata service"),
        ("fd00:ec2::/32", "a cloud metadata service"),
        ("fd20:ce::254/128", "a cloud metadata service"),
        ("fd00:42::42/128", "a cloud metadata service"),
        ("224.0.0.0/4", "multicast"),
        ("ff00::/8", "multicast"),
        ("255.255.255.255/32", "broadcast"),
        ("0.0.0.0/8", "unspecified"),
        ("::/128", "unspecified"),
    )
)
#: IPv6 forms whose last 32 bits are an IPv4 address: mapped, compatible, translated, NAT64 (well-known and local).
_IPV4_IN_LAST_32_BITS = tuple(
    ipaddress.IPv6Network(network)
    for network in ("::ffff:0:0/96", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
)


class AddressError(ValueError):
    """The endpoint's address cannot be used; the message says what to do and repeats no secret."""


class UrlError(AddressError):
    """Not a URL that can be measured."""


class ResolveError(AddressError):
    """The host gave no address to connect to; ``outcome`` is the class that its requests are counted in."""

    outcome: Outcome


class DnsError(ResolveError):
    outcome = Outcome.DNS_ERROR


class PolicyBlocked(ResolveError):
    outcome = Outcome.POLICY_BLOCKED


@dataclass(frozen=True)
class Endpoint:
    """The parts of an endpoint's URL. ``host`` is bare, without brackets; ``base_path`` is "" or "/v1", never "/"."""

    scheme: str
    host: str
    port: int
    base_path: str

    @property
    def tls(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """For the Host header: the port only when it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORT[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL rebuilt from the parts: what was checked is what is used."""
        return f"{self.scheme}://{self.authority}{self.base_path}"


def parse_endpoint(url: str) -> Endpoint:
    """The parts of ``url``. A backslash counts as a slash, as in browsers.

    Raises UrlError for what is not a plain http(s) address, PolicyBlocked for a host that is never contacted.
    """
    text = url.strip().replace("\\", "/")
    if _CONTROL_OR_SPACE.search(text):
        raise UrlError("Remove spaces, line breaks and control characters from the URL.")
    scheme, separator, _ = text.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _DEFAULT_PORT:
        raise UrlError(
            "Start the URL with http:// or https://, such as http://gpu-1:8000. Nothing else can be measured."
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise UrlError(_MALFORMED) from None
    if "@" in parts.netloc:
        raise UrlError("Remove the user name and password from the URL; put the key into the API key field.")
    if not _HOST_AND_PORT.fullmatch(parts.netloc):
        raise UrlError(_MALFORMED)
    if "#" in text or "?" in text:
        raise UrlError("Remove everything from ? or # on: give only the base address, such as https://example.com/v1.")
    if port == 0:
        raise UrlError("Port 0 cannot be connected to. Give the server's port, from 1 to 65535.")
    host = _host(parts.hostname or "")
    return Endpoint(scheme, host, port or _DEFAULT_PORT[scheme], _base_path(parts.path))


def resolve(host: str, port: int, lookup: Callable[..., list[Any]] = socket.getaddrinfo) -> list[Pinned]:
    """Every address of ``host``, in the resolver's order, all checked: connect to these, and do not look up again.

    Blocks for as long as the system's resolver does. Raises DnsError, or PolicyBlocked when any one address is denied.
    """
    if host.rstrip(".").lower() in _METADATA_NAMES:
        raise _blocked(host, "a cloud metadata service")
    try:
        found = lookup(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except socket.gaierror as error:
        raise DnsError(_dns_words(host, error)) from None
    except (UnicodeError, OSError):
        raise DnsError(f"The host name {host} cannot be looked up. Check the URL's spelling.") from None
    pinned = list(dict.fromkeys((family, tuple(sockaddr)) for family, _, _, _, sockaddr in found))
    for _, sockaddr in pinned:
        why = denied(sockaddr[0])
        if why:
            raise _blocked(host, why)
    if not pinned:
        raise DnsError(f"The host name {host} has no address. Check the URL's spelling and this machine's DNS.")
    return pinned


def denied(address: str) -> str | None:
    """Why ``address`` is never contacted, in a few words; None when it may be.

    Forms of IPv6 that carry an IPv4 address are judged by what they carry too.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    for candidate in (ip, *_carried(ip)):
        for network, why in _DENIED_NETWORKS:
            if candidate.version == network.version and candidate in network:
                return why
    return None


def _carried(ip: IPAddress) -> Iterator[ipaddress.IPv4Address]:
    if isinstance(ip, ipaddress.IPv4Address) or int(ip) <= 1:
        return
    if any(ip in network for network in _IPV4_IN_LAST_32_BITS):
        yield ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    if ip.sixtofour:
        yield ip.sixtofour
    if ip.teredo:
        yield from ip.teredo


def _host(host: str) -> str:
    if not host:
        raise UrlError("The URL has no host. Write it as http://host:8000.")
    if "%" in host:
        raise UrlError("Remove the % from the host: zone ids (fe80::1%eth0) and encoded names cannot be measured.")
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return _host_name(host)
    return _allowed_literal(ip)


def _allowed_literal(ip: IPAddress) -> str:
    why = denied(str(ip))
    if why:
        raise _blocked(str(ip), why)
    return str(ip)


def _host_name(host: str) -> str:
    try:
        name = host.encode("idna").decode("ascii").lower()
    except UnicodeError:
        name = ""
    if len(name) > _HOST_NAME_MAX or not _HOST_NAME.fullmatch(name):
        raise UrlError("The URL's host is not a host name. Use letters, digits, dots and hyphens, or an IP address.")
    if name.rstrip(".") in _METADATA_NAMES:
        raise _blocked(name, "a cloud metadata service")
    return name


def _base_path(path: str) -> str:
    return quote(path.rstrip("/"), safe="/%:@!$&'()*+,;=~-._")


def _blocked(host: str, why: str) -> PolicyBlocked:
    return PolicyBlocked(f"{host} is never contacted: it is {why}. Give the address of a model server.")


def _dns_words(host: str, error: socket.gaierror) -> str:
    if error.errno == socket.EAI_AGAIN:
        return f"The DNS server gave no answer for {host}. Try again, or check this machine's DNS."
    return f"The host name {host} does not resolve. Check the URL's spelling and this machine's DNS."
