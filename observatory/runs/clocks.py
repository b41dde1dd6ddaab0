"""The clocks of load hosts, compared over the one thing that all of them reach: the broker."""

from dataclasses import dataclass
from time import monotonic_ns
from typing import Any

from observatory.celery import app

_ROUNDS = 15
#: The broker tells whole microseconds.
_RESOLUTION_NS = 1_000


@dataclass(frozen=True)
class Clock:
    """``offset_ns`` added to this host's CLOCK_MONOTONIC gives the broker's time, to within ``bound_ns``."""

    offset_ns: int
    bound_ns: int


class ClockError(Exception):
    """The broker does not tell its time; the message says what to do."""


def compare() -> Clock:
    """The tightest of a few round trips: the broker's answer was made somewhere between question and arrival, so that
    half the trip bounds the error, however unequal its two ways are. Raises ClockError.
    """
    try:
        with app.connection_for_read() as connection:
            client: Any = connection.default_channel.client  # type: ignore[attr-defined]  # of the Redis transport
            return min((_round_trip(client) for _ in range(_ROUNDS)), key=lambda clock: clock.bound_ns)
    except Exception as error:  # each transport has its own
        raise ClockError(
            f"the clocks of the load hosts cannot be compared, because the broker does not tell its time ({error}); "
            "it must be a Redis or Valkey server that every load host reaches"
        ) from error


def _round_trip(client: Any) -> Clock:
    before = monotonic_ns()
    seconds, microseconds = client.time()
    after = monotonic_ns()
    told = int(seconds) * 1_000_000_000 + int(microseconds) * 1_000
    return Clock(told - (before + after) // 2, (after - before) // 2 + _RESOLUTION_NS)
