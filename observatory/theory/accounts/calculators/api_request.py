"""What the declarations of token prices share: a request as a provider counts it, and the rates that hold for it."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from observatory.theory.accounts.calculators.frame import moment
from observatory.theory.fields import choice, number, result, switch, text
from runners.prices import lists
from runners.prices.cost import ApiCost, Rate, Rates
from runners.prices.usage import Convention, Usage, usage_of

ASSUMPTIONS = (
    "A tier holds for the whole request when its prompt is strictly longer than the threshold.",
    "Reasoning is billed as output. Cached reads without a rate of their own are billed as input.",
    "A batch discount given by hand is taken off every rate alike.",
)


def tokens(default: int | None, label: str, help: str) -> Any:
    return number(default, "tok", label, help, low=0, high=10**10, group="One request")


_OWN = "Rates, instead of a list price"


def _usd(label: str, help: str, default: Decimal | None = None) -> Any:
    return number(default, "$/Mtok", label, help, low=0, high=1_000_000, group=_OWN)


@dataclass(frozen=True)
class Request:
    """Token counts of one request, as reported."""

    convention: Convention = choice(
        Convention.OPENAI,
        "Counts as reported by",
        "anthropic: input leaves cache tokens out. google, xai: output leaves reasoning out.",
        group="One request",
    )
    input_tokens: int = tokens(1000, "Input tokens", "As the provider reports them.")
    output_tokens: int = tokens(500, "Output tokens", "As the provider reports them.")
    cache_read_tokens: int = tokens(0, "Cached reads", "Prompt tokens found in the cache.")
    cache_write_tokens: int = tokens(0, "Cache writes", "Written for the shorter time (5 min).")
    cache_write_1h_tokens: int = tokens(0, "Cache writes, 1 h", "Written for an hour.")
    reasoning_tokens: int = tokens(0, "Reasoning tokens", "A part of output, or apart from it.")
    total_tokens: int | None = tokens(None, "Total as reported", "Checked against the parts.")

    def usage(self) -> Usage:
        """Raises Impossible."""
        return usage_of(
            self.convention,
            input=self.input_tokens,
            output=self.output_tokens,
            cache_read=self.cache_read_tokens,
            cache_write=self.cache_write_tokens,
            cache_write_1h=self.cache_write_1h_tokens,
            reasoning=self.reasoning_tokens,
            total=self.total_tokens,
        )


@dataclass(frozen=True)
class Price:
    """A list price of a day, or rates of one's own."""

    api_model: str = text("", "Model", "Name at the provider, for its list price. Empty: the rates below.", longest=120)
    api_provider: str = text("", "Provider", "Such as openai or anthropic; empty finds it by the model.", longest=60)
    on: str = text("", "Day", "Day of the price, as 2026-11-29 (UTC, noon). Empty: now.", longest=10)
    batch: bool = switch(False, "Batch", "Price of the batch interface.")
    batch_discount: Decimal | None = number(
        None, "", "Batch discount", "Share off, such as 0.5, where the list has no batch price.", low=0, high=1
    )
    input_usd: Decimal | None = _usd("Input", "Rate; not used with a model.", Decimal(3))
    output_usd: Decimal | None = _usd("Output", "Rate; not used with a model.", Decimal(15))
    cache_read_usd: Decimal | None = _usd("Cached read", "Empty: the input rate.")
    cache_write_usd: Decimal | None = _usd("Cache write", "Empty: the input rate.")
    cache_write_1h_usd: Decimal | None = _usd("Cache write, 1 h", "Empty: the input rate, or unknown beside a write.")
    tier_above: int | None = number(
        None, "tok", "Tier above", "Prompts longer than this.", low=0, high=10**10, group=_OWN
    )
    tier_input_usd: Decimal | None = _usd("Input in the tier", "For the whole request.")
    tier_output_usd: Decimal | None = _usd("Output in the tier", "For the whole request.")

    def rates(self) -> tuple[Rates | None, str]:
        """The rates that hold, or why they are unknown."""
        if not self.api_model:
            return self._discounted(*self._own()) if self.batch else self._own()
        asked = {"model": self.api_model, "provider": self.api_provider, "at": moment(self.on)}
        found = lists.quote(**asked, batch=self.batch)  # type: ignore[arg-type]
        if found.rates is None and self.batch:
            plain = lists.quote(**asked)  # type: ignore[arg-type]
            return self._discounted(plain.rates, plain.reason or found.reason)
        return found.rates, found.reason

    def _own(self) -> tuple[Rates | None, str]:
        if self.input_usd is None and self.output_usd is None:
            return None, "Neither a model nor rates are given."
        return Rates(
            input=_rate(self.input_usd, self.tier_above, self.tier_input_usd),
            output=_rate(self.output_usd, self.tier_above, self.tier_output_usd),
            cache_read=_rate(self.cache_read_usd),
            cache_write=_rate(self.cache_write_usd),
            cache_write_1h=_rate(self.cache_write_1h_usd),
            source="rates as given",
        ), ""

    def _discounted(self, plain: Rates | None, reason: str) -> tuple[Rates | None, str]:
        """For a batch that the list does not price: as far as a discount was given."""
        if plain is None:
            return None, reason
        if self.batch_discount is None:
            return None, f"{reason or 'Rates of your own have no batch price.'} Give the batch discount."
        return plain.less(self.batch_discount), ""


def _rate(base: Decimal | None, above: int | None = None, tier: Decimal | None = None) -> Rate | None:
    if base is None:
        return None
    return Rate(base, () if above is None or tier is None else ((above, tier),))


@dataclass(frozen=True)
class Part:
    """One class of tokens of a request."""

    kind: str = result(label="Tokens")
    tokens: int = result("tok", "Count")
    usd_per_mtok: Decimal = result("$/Mtok", "Rate")
    usd: Decimal = result("$", "Cost")


def parts(cost: ApiCost) -> tuple[Part, ...]:
    return tuple(Part(line.kind, line.tokens, line.rate.rate, line.usd.amount) for line in cost.lines)
