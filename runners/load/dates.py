"""The Date header: how far a server's wall clock is from ours. No timing rests on either."""

from email.utils import parsedate_to_datetime
from functools import lru_cache


@lru_cache(maxsize=64)
def _epoch_s(date: bytes) -> float | None:
    try:
        return parsedate_to_datetime(date.decode("latin-1")).timestamp()
    except (ValueError, OverflowError):
        return None


def skew_s(date: bytes, now_s: float) -> float | None:
    """Seconds that the header is ahead of ``now_s``, which is seconds since 1970; None for what is no date."""
    told_s = _epoch_s(date)
    return None if told_s is None else told_s - now_s
