"""What a request costs at a token API."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from observatory.theory.accounts import api_prices
from observatory.theory.accounts.api_cost import Rate, Rates
from observatory.theory.accounts.api_cost import api_cost as cost_of
from observatory.theory.accounts.calculators.frame import moment, refusing
from observatory.theory.accounts.usage import Convention, usage_of
from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import choice, number, result, switch, text


def _tokens(default: int | None, label: str, help: str) -> Any:
    return number(default, "tok", label, help, low=0, high=10**10)


def _usd(label: str, help: str, default: Decimal | None = None) -> Any:
    return number(default, "$/Mtok", label, help, low=0, high=1_000_000, group="Rates, instead of a list price")


@dataclass(frozen=True)
class Inputs:
    model: str = text("", "Model", "Name at the provider, for its list price. Empty: the rates below.", longest=120)
    provider: str = text("", "Provider", "Such as openai or anthropic; empty finds it by the model.", longest=60)
    on: str = text("", "Day", "Day of the price, as 2026-11-29 (UTC, noon). Empty: now.", longest=10)
    batch: bool = switch(False, "Batch", "Price of the batch interface.")
    convention: Convention = choice(
        Convention.OPENAI,
        "Counts as reported by",
        "anthropic: input leaves cache tokens out. google, xai: output leaves reasoning out.",
    )
    input_tokens: int = _tokens(1000, "Input tokens", "As the provider reports them.")
    output_tokens: int = _tokens(500, "Output tokens", "As the provider reports them.")
    cache_read_tokens: int = _tokens(0, "Cached reads", "Prompt tokens found in the cache.")
    cache_write_tokens: int = _tokens(0, "Cache writes", "Written for the shorter time (5 min).")
    cache_write_1h_tokens: int = _tokens(0, "Cache writes, 1 h", "Written for an hour.")
    reasoning_tokens: int = _tokens(0, "Reasoning tokens", "A part of output, or apart from it.")
    total_tokens: int | None = _tokens(None, "Total as reported", "Checked against the parts.")
    requests: int = number(1, "", "Requests", "As many as this one.", low=1, high=10**12)
    input_usd: Decimal | None = _usd("Input", "Rate; not used with a model.", Decimal(3))
    output_usd: Decimal | None = _usd("Output", "Rate; not used with a model.", Decimal(15))
    cache_read_usd: Decimal | None = _usd("Cached read", "Empty: the input rate.")
    cache_write_usd: Decimal | None = _usd("Cache write", "Empty: the input rate.")
    cache_write_1h_usd: Decimal | None = _usd("Cache write, 1 h", "Empty: the input rate, or unknown beside a write.")
    tier_above: int | None = _tokens(None, "Tier above", "Prompts longer than this.")
    tier_input_usd: Decimal | None = _usd("Input in the tier", "For the whole request.")
    tier_output_usd: Decimal | None = _usd("Output in the tier", "For the whole request.")


@dataclass(frozen=True)
class Part:
    kind: str = result(label="Tokens")
    tokens: int = result("tok", "Count")
    usd_per_mtok: Decimal = result("$/Mtok", "Rate", decimals=6)
    usd: Decimal = result("$", "Cost", decimals=10)


@dataclass(frozen=True)
class Outputs:
    usd: Decimal | None = result("$", "Cost", "Of all requests. Missing when a rate is unknown.", decimals=10)
    usd_per_request: Decimal | None = result("$", "Cost of one request", decimals=10, better="lower")
    reason: str = result(label="Why unknown", default="")
    price_source: str = result(label="Price", default="")
    parts: tuple[Part, ...] = result(label="One request by class of tokens", default=())


@refusing
def compute(inputs: Inputs) -> Outputs:
    usage = usage_of(
        inputs.convention,
        input=inputs.input_tokens,
        output=inputs.output_tokens,
        cache_read=inputs.cache_read_tokens,
        cache_write=inputs.cache_write_tokens,
        cache_write_1h=inputs.cache_write_1h_tokens,
        reasoning=inputs.reasoning_tokens,
        total=inputs.total_tokens,
    )
    rates, reason = _rates(inputs)
    if rates is None:
        return Outputs(None, None, reason)
    cost = cost_of(usage, rates)
    one = None if cost.usd is None else cost.usd.amount
    parts = tuple(Part(line.kind, line.tokens, line.rate.rate, line.usd.amount) for line in cost.lines)
    return Outputs(None if one is None else one * inputs.requests, one, cost.reason, cost.source, parts)


def _rates(inputs: Inputs) -> tuple[Rates | None, str]:
    if inputs.model:
        found = api_prices.quote(inputs.model, inputs.provider, at=moment(inputs.on), batch=inputs.batch)
        return found.rates, found.reason
    if inputs.input_usd is None and inputs.output_usd is None:
        return None, "Neither a model nor rates are given."
    return Rates(
        input=_rate(inputs.input_usd, inputs.tier_above, inputs.tier_input_usd),
        output=_rate(inputs.output_usd, inputs.tier_above, inputs.tier_output_usd),
        cache_read=_rate(inputs.cache_read_usd),
        cache_write=_rate(inputs.cache_write_usd),
        cache_write_1h=_rate(inputs.cache_write_1h_usd),
        source="rates as given",
    ), ""


def _rate(base: Decimal | None, above: int | None = None, tier: Decimal | None = None) -> Rate | None:
    if base is None:
        return None
    return Rate(base, () if above is None or tier is None else ((above, tier),))


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    kinds = tuple(part.kind for part in outputs.parts)
    bars = Line("one request", kinds, tuple(float(part.usd) for part in outputs.parts))
    return (Plot("Where the money goes", Axis("Tokens"), Axis("Cost", "$", "lower"), (bars,), bars=True),)


API_COST = Calculator(
    name="api-cost",
    title="Cost at a token API",
    subject="Money",
    summary="What a request costs at a list price of a day or at rates of your own: tiers, cached reads and writes, "
    "batch, reasoning. An unknown price stays unknown.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("$ = Σ tokens_c × rate_c / 10^6 over classes c that do not overlap",),
    source=f"List prices: {api_prices.PACKAGE} (MIT), dated; rules of counting: the providers' API references.",
    assumptions=(
        "A tier holds for the whole request when its prompt is strictly longer than the threshold.",
        "Reasoning is billed as output. Cached reads without a rate of their own are billed as input.",
    ),
    plots=_plots,
)
