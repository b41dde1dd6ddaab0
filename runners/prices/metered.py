"""What measured requests used, by class of tokens, and what they cost, each at the tier of its own prompt."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runners.budget import CHECK_INPUT_TOKENS, CHECK_OUTPUT_TOKENS, CHECK_REQUESTS
from runners.prices.cost import Rates, api_cost
from runners.prices.usage import Convention, Usage, usage_of
from runners.prices.usd import Usd

COLUMNS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
SENT_COLUMNS = ("sent_ns", *COLUMNS)


@dataclass(frozen=True)
class Metered:
    """``usages``: requests of the same usage, and how many there were. ``unknown``: requests without token counts.
    ``cached_unknown``: requests for which nobody said how many prompt tokens were cached; they count as not cached.
    """

    usages: tuple[tuple[Usage, int], ...]
    unknown: int = 0
    cached_unknown: int = 0

    @property
    def requests(self) -> int:
        return sum(count for _, count in self.usages)

    def total(self, name: str) -> int:
        """Tokens of a class over all requests, such as ``input``, ``cache_read``, ``output``, ``reasoning``."""
        return sum(getattr(usage, name) * count for usage, count in self.usages)


@dataclass(frozen=True)
class Charge:
    """One class of tokens over all requests; ``rates`` are those that held, lowest first."""

    kind: str
    tokens: int
    rates: tuple[Decimal, ...]
    usd: Usd


@dataclass(frozen=True)
class Bill:
    """``usd`` is None when a rate is unknown; ``reason`` then says which. ``tiered``: requests above a tier."""

    usd: Usd | None
    charges: tuple[Charge, ...] = ()
    tiered: int = 0
    reason: str = ""


def usage_of_row(row: Mapping[str, Any], *, reasoning_apart: bool = False) -> Usage:
    """A row's tokens by class. Every dialect's rows hold cached tokens inside the input; writes to a cache are not told
    apart from it. More reasoning than output can only have been reported apart, whoever the provider is.
    """
    made, thought = row["output_tokens"], row["reasoning_tokens"] or 0
    return usage_of(
        Convention.XAI if reasoning_apart or thought > made else Convention.OPENAI,
        input=row["input_tokens"],
        output=made,
        cache_read=min(row["cached_tokens"] or 0, row["input_tokens"]),
        reasoning=thought,
    )


def metered(rows: pa.Table, *, reasoning_apart: bool = False) -> Metered:
    """The usage of request rows."""
    usages: Counter[Usage] = Counter()
    unknown = cached_unknown = 0
    for row, count in _alike(rows):
        if row["input_tokens"] is None or row["output_tokens"] is None:
            unknown += count
            continue
        usages[usage_of_row(row, reasoning_apart=reasoning_apart)] += count
        cached_unknown += count if row["cached_tokens"] is None else 0
    return Metered(tuple(usages.items()), unknown, cached_unknown)


def _alike(rows: pa.Table) -> Iterator[tuple[dict[str, Any], int]]:
    """Rows of the same token counts once, with how many they are: hours of load have few that differ."""
    for row in rows.select(list(COLUMNS)).group_by(list(COLUMNS)).aggregate([([], "count_all")]).to_pylist():
        yield row, row.pop("count_all")


def bill(usages: Iterable[tuple[Usage, int]], rates: Rates) -> Bill:
    """What requests cost together."""
    lines: dict[str, list[tuple[int, Decimal, Usd]]] = {}
    tiered = 0
    for usage, count in usages:
        cost = api_cost(usage, rates)
        if cost.usd is None:
            return Bill(None, reason=cost.reason)
        tiered += count if rates.tier_of(usage.input) else 0
        for line in cost.lines:
            usd = Usd(line.usd.amount * count)
            lines.setdefault(line.kind, []).append((line.tokens * count, line.rate.rate, usd))
    charges = tuple(
        Charge(kind, sum(part[0] for part in parts), tuple(sorted({part[1] for part in parts})),
               Usd.total(part[2] for part in parts))
        for kind, parts in lines.items()
    )  # fmt: skip
    return Bill(Usd.total(charge.usd for charge in charges), charges, tiered)


def spent_usd(
    parts: Iterable[pa.Table], rates: Rates, worst: tuple[int, int], *, reasoning_apart: bool = False
) -> Decimal | None:
    """What a run's rows, in parts of ``SENT_COLUMNS``, say that it cost, with the check before it; None when a rate is
    unknown. ``worst``: the most input and output tokens of a request; one that was sent but whose usage is unknown
    counts so.
    """
    checks = (Usage(CHECK_INPUT_TOKENS, CHECK_OUTPUT_TOKENS), CHECK_REQUESTS)
    sent = (found for part in parts for found in _alike(part.filter(pc.is_valid(part["sent_ns"]))))
    usages = ((usage_of_row(_at_worst(row, worst), reasoning_apart=reasoning_apart), count) for row, count in sent)
    total = bill(chain([checks], usages), rates).usd
    return None if total is None else total.amount


def _at_worst(row: Mapping[str, Any], worst: tuple[int, int]) -> dict[str, Any]:
    """The most that what is unknown of a row can be."""
    made = {"output_tokens": worst[1], "reasoning_tokens": 0} if row["output_tokens"] is None else {}
    return {**row, **({"input_tokens": worst[0]} if row["input_tokens"] is None else {}), **made}
