"""What a request costs at a token API: each class of tokens at its own rate, in Decimal.

Tiers switch the whole request to the higher rate when its prompt is strictly longer than the threshold, as Anthropic,
Google and OpenAI bill long contexts. Formula: sum over classes of tokens x rate / 1e6.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from runners.budget import longest_input
from runners.prices.usage import Usage
from runners.prices.usd import Usd, UsdPerMtok


@dataclass(frozen=True)
class Rate:
    """Dollars per million tokens; ``tiers`` are (prompt tokens above which it holds, rate), lowest first."""

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def at(self, input_tokens: int) -> UsdPerMtok:
        reached = [rate for threshold, rate in self.tiers if input_tokens > threshold]
        return UsdPerMtok(reached[-1] if reached else self.base)

    def less(self, share: Decimal) -> "Rate":
        """With a share of every price taken off."""
        return Rate(self.base * (1 - share), tuple((above, rate * (1 - share)) for above, rate in self.tiers))

    def to_json(self) -> dict[str, Any]:
        """Decimals as text, so that they come back exact."""
        return {"base": str(self.base), "tiers": [[above, str(rate)] for above, rate in self.tiers]}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Rate":
        return cls(Decimal(data["base"]), tuple((above, Decimal(rate)) for above, rate in data["tiers"]))


@dataclass(frozen=True)
class Rates:
    """A price list. None: the list has no rate for that class. ``source`` says where and when it is from.

    Providers without a rate for cached reads bill them as input; so does this. An hour of caching without a rate of
    its own beside a rate for shorter caching is unknown: it costs more (Anthropic: 2 x input against 1.25 x).
    """

    input: Rate | None
    output: Rate | None
    cache_read: Rate | None = None
    cache_write: Rate | None = None
    cache_write_1h: Rate | None = None
    source: str = ""

    @property
    def free(self) -> bool:
        """Every rate that there is, is 0, and there is one for input and for output."""
        known = [rate for rate in (self.input, self.output, self.cache_read, self.cache_write) if rate is not None]
        zero = all(rate.base == 0 and all(price == 0 for _, price in rate.tiers) for rate in known)
        return self.input is not None and self.output is not None and zero

    def tier_of(self, input_tokens: int) -> int:
        """The threshold of the highest tier that a prompt of this length is above; 0 below every one."""
        known = (rate for name in _CLASSES for rate in (getattr(self, name),) if rate is not None)
        return max((above for rate in known for above, _ in rate.tiers if input_tokens > above), default=0)

    def highest(self, input_tokens: int) -> tuple[Decimal, Decimal]:
        """Dollars per million input and output tokens for the longest prompt of a stated length, whatever its class.

        Both rates must be known.
        """
        longest = longest_input(input_tokens)
        prompts = [rate for rate in (self.input, self.cache_write, self.cache_write_1h) if rate is not None]
        answer = self.output.at(longest).rate if self.output else Decimal(0)
        return max(rate.at(longest).rate for rate in prompts), answer

    def less(self, share: Decimal) -> "Rates":
        """With a share of every rate taken off, as the batch interface does."""
        classes = {name: rate and rate.less(share) for name in _CLASSES for rate in (getattr(self, name),)}
        return Rates(**classes, source=f"{self.source}, less {share:.0%} for batch as given")

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, for what must keep the rates as they were."""
        classes = {name: getattr(self, name) for name in _CLASSES}
        return {"source": self.source} | {name: rate and rate.to_json() for name, rate in classes.items()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Rates":
        classes = {name: data[name] and Rate.from_json(data[name]) for name in _CLASSES}
        return cls(**classes, source=data["source"])


_CLASSES = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


@dataclass(frozen=True)
class Line:
    """One class of tokens of a request, with the rate that held."""

    kind: str
    tokens: int
    rate: UsdPerMtok
    usd: Usd


@dataclass(frozen=True)
class ApiCost:
    """``usd`` is None when a rate is unknown; ``reason`` then says which."""

    usd: Usd | None
    lines: tuple[Line, ...] = ()
    reason: str = ""
    source: str = ""


def api_cost(usage: Usage, rates: Rates) -> ApiCost:
    """The cost of one request."""
    lines: list[Line] = []
    for kind, tokens, rate in _classes(usage, rates):
        if tokens == 0:
            continue
        if rate is None:
            return ApiCost(None, reason=f"The price list has no rate for {kind} tokens.", source=rates.source)
        price = rate.at(usage.input)
        lines.append(Line(kind, tokens, price, price.times(tokens)))
    return ApiCost(Usd.total(line.usd for line in lines), tuple(lines), source=rates.source)


def _classes(usage: Usage, rates: Rates) -> list[tuple[str, int, Rate | None]]:
    hour = rates.cache_write_1h or (None if rates.cache_write else rates.input)
    return [
        ("input", usage.uncached, rates.input),
        ("cached read", usage.cache_read, rates.cache_read or rates.input),
        ("cache write", usage.cache_write, rates.cache_write or rates.input),
        ("one-hour cache write", usage.cache_write_1h, hour),
        ("output", usage.output, rates.output),
    ]
