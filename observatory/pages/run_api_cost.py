"""What an API would charge for the measured requests of a stage, each by its own tokens."""

from dataclasses import dataclass
from decimal import Decimal

from runners.metrics import Mark
from runners.prices.cost import Rates
from runners.prices.metered import Bill, Charge, Metered, bill

MILLION = Decimal(1_000_000)


@dataclass(frozen=True)
class Charged:
    """Prices of a stage at the API, all None with ``reason`` where something is unknown. ``words`` says which requests
    and tokens they are divided by.
    """

    usd_per_query: Decimal | None
    usd_per_mtok_output: Decimal | None = None
    usd_per_mtok_total: Decimal | None = None
    charges: tuple[Charge, ...] = ()
    mark: Mark = Mark.MEASURED
    words: str = ""
    reason: str = ""


def charge(used: Metered | None, rates: Rates | None, reason: str) -> Charged:
    """``reason``: why there are no rates. A request whose cached tokens nobody told is billed as if it had none, which
    is assumed where cached tokens have a rate of their own.
    """
    if rates is None:
        return Charged(None, reason=reason)
    if used is None:
        return Charged(None, reason="its request rows are not kept, and tiers and cached tokens go by request")
    if not used.requests:
        return Charged(None, reason="its token counts are unknown")
    found = bill(used.usages, rates)
    if found.usd is None:
        return Charged(None, reason=found.reason)
    usd, output, total = found.usd.amount, used.total("output"), used.total("output") + used.total("input")
    assumed = used.cached_unknown and rates.cache_read is not None
    return Charged(
        usd / used.requests,
        usd * MILLION / output if output else None,
        usd * MILLION / total if total else None,
        found.charges,
        Mark.ASSUMED if assumed else Mark.MEASURED,
        f"{rates.source}; {_denominators(used, found)}",
    )


def _denominators(used: Metered, found: Bill) -> str:
    left = f", {_whole(used.unknown)} more without token counts left out" if used.unknown else ""
    tier = f"; {_whole(found.tiered)} prompts are above a tier" if found.tiered else ""
    thought = f"{_whole(used.total('reasoning'))} of them reasoning"
    return (
        f"over {_whole(used.requests)} good requests{left}: {_whole(used.total('input'))} prompt tokens, "
        f"{_cached(used)}, and {_whole(used.total('output'))} output tokens, {thought}{tier}"
    )


def _cached(used: Metered) -> str:
    if used.cached_unknown == used.requests:
        return "how many of them cached was not reported: billed as none"
    some = f" ({_whole(used.cached_unknown)} requests did not tell)" if used.cached_unknown else ""
    return f"{_whole(used.total('cache_read'))} of them cached{some}"


def _whole(count: int) -> str:
    return f"{count:,}".replace(",", "\u2009")
