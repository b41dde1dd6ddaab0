"""How long a connection may take for each step of an exchange."""

from typing import NamedTuple

from runners.load.exchange import Exchange
from runners.load.outcomes import Outcome
from runners.load.transport import Connection
from runners.spec import Timeouts


class Limit(NamedTuple):
    """What an exchange comes to at ``at_ns`` unless something happens before. No outcome: another address."""

    at_ns: float
    outcome: Outcome | None
    detail: str = ""


def shortest_ns(limits: Timeouts, addresses: int) -> float:
    """No timer of an exchange that begins now runs out before."""
    return 1e9 * min(limits.connect_s / addresses, limits.first_byte_s, limits.idle_s, limits.total_s)


def next_limit(connection: Connection, exchange: Exchange, heard_ns: int, limits: Timeouts) -> Limit:
    """``heard_ns``: when the server's last bytes came."""
    if not connection.open:
        return _connecting(connection, limits)
    sent_ns = exchange.sent_ns
    if exchange.response.stamps_ns:
        limit = Limit(heard_ns + limits.idle_s * 1e9, Outcome.TIMEOUT_IDLE, f"silent for {limits.idle_s:g} s")
    elif exchange.unsent:
        words = f"the server took no bytes for {limits.first_byte_s:g} s"
        limit = Limit(sent_ns + limits.first_byte_s * 1e9, Outcome.TIMEOUT_WRITE, words)
    else:
        words = f"no byte came back in {limits.first_byte_s:g} s"
        limit = Limit(sent_ns + limits.first_byte_s * 1e9, Outcome.TIMEOUT_FIRST_BYTE, words)
    total = Limit(sent_ns + limits.total_s * 1e9, Outcome.TIMEOUT_TOTAL, f"not done in {limits.total_s:g} s")
    return min(total, limit, key=lambda one: one.at_ns)


def _connecting(connection: Connection, limits: Timeouts) -> Limit:
    """Each address gets its share of the connect limit, so that one that swallows packets does not take all."""
    limit_ns = limits.connect_s * 1e9
    share_ends_ns = connection.tried_ns + limit_ns / len(connection.destination.addresses)
    if connection.has_another_address and share_ends_ns < connection.started_ns + limit_ns:
        return Limit(share_ends_ns, None)
    words = f"no connection in {limits.connect_s:g} s"
    return Limit(connection.started_ns + limit_ns, Outcome.TIMEOUT_CONNECT, words)
