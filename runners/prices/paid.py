"""Who charges by the token at an address: a provider of the price list, or whoever serves a model of one in public.

Loopback and private addresses are nobody's. What is declared (``Billing``) goes before what is guessed here.
The price list is read only where an address may be public: that takes a quarter of a second.
"""

import ipaddress
from collections.abc import Callable

from runners.address import AddressError, Pinned, parse_endpoint, resolve

#: Names that only a private network has.
_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".home", ".corp", ".intranet", ".svc",
                    ".test", ".invalid")  # fmt: skip


def charging(url: str, model: str = "", lookup: Callable[[str, int], list[Pinned]] = resolve) -> str:
    """Why requests to ``url`` cost money by the token, as a sentence's beginning; empty when nobody is known to charge.

    A host of the price list does. So does a public address that serves a model which a provider of the list makes; a
    name that cannot be looked up is taken to be public.
    """
    try:
        endpoint = parse_endpoint(url)
    except AddressError:
        return ""
    host = endpoint.host.rstrip(".")
    if _private_name(host):
        return ""
    from runners.prices import lists

    provider = lists.provider_at(f"https://{host}{endpoint.base_path}")
    if provider:
        return f"{provider} charges for each token at this address"
    maker = lists.maker_of(model)
    if maker and not _private_host(host, endpoint.port, lookup):
        return f"{host} is a public address and {model} a model that {maker} sells by the token"
    return ""


def _private_name(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_ENDINGS)


def _private_host(host: str, port: int, lookup: Callable[[str, int], list[Pinned]]) -> bool:
    try:
        return all(not ipaddress.ip_address(found[1][0].partition("%")[0]).is_global for found in lookup(host, port))
    except AddressError:
        return False
