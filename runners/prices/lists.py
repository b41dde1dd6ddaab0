"""Dated list prices of token APIs, from the genai-prices package. Nothing is fetched: the package carries the list."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache

from genai_prices import __version__
from genai_prices.data import providers
from genai_prices.types import (
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
    TieredPrices,
)

from runners.prices.cost import Rate, Rates

PACKAGE = f"genai-prices {__version__}"

#: Rate -> price key of the package.
_KEYS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}


@dataclass(frozen=True)
class Quote:
    """A price list, or the reason why there is none. ``model`` is the list's own name of the model."""

    rates: Rates | None
    reason: str = ""
    provider: str = ""
    model: str = ""


def quote(model: str, provider: str = "", *, at: datetime | None = None, batch: bool = False) -> Quote:
    """The list price of a model at a moment (now when not given): some have cheaper hours. Unknown is a reason."""
    asked = f"{provider}/{model}" if provider else model
    found = _find(model, provider)
    if found is None:
        return Quote(None, f"No list price is known for {asked}.")
    of, info = found
    when = (at or datetime.now(UTC)).astimezone(UTC)
    first = _first_day(info)
    if first is not None and when.date() < first:
        return Quote(None, f"The first known price of {asked} is of {first}, after {when:%Y-%m-%d}.", of.id, info.id)
    if batch and not any(_is_batch(variant, when) for variant in info.price_variants or ()):
        return Quote(None, f"No batch price is known for {asked} on {when:%Y-%m-%d}.", of.id, info.id)
    prices = info.get_prices(when, {"processing": "batch"} if batch else None)
    rates = _rates(prices, _source(of, info, f"price of {when:%Y-%m-%d}{', batch' if batch else ''}"))
    if rates.input is None and rates.output is None:
        return Quote(None, f"{asked} is not priced per token in the list.", of.id, info.id)
    return Quote(rates, "", of.id, info.id)


def dearest(model: str, provider: str = "", *, at: datetime | None = None) -> Quote:
    """The price at the dearest hour of the two days from ``at``: an upper bound for a run that starts then."""
    start = at or datetime.now(UTC)
    hours = [quote(model, provider, at=start + timedelta(hours=hour)) for hour in range(48)]
    unknown = next((item for item in hours if item.rates is None), None)
    return unknown or max(hours, key=lambda item: _height(item.rates))


def _height(rates: Rates | None) -> Decimal:
    return Decimal(0) if rates is None else sum((r.base for r in (rates.input, rates.output) if r), Decimal(0))


def _find(model: str, provider: str) -> tuple[Provider, ModelInfo] | None:
    if provider:
        of = next((item for item in providers if item.id == provider.lower()), None)
        info = of.find_model(model, all_providers=providers) if of else None
        return (of, info) if of and info else None
    for of in providers:
        if of.model_match is not None and of.model_match.is_match(model.lower()):
            info = of.find_model(model, all_providers=providers)
            return (of, info) if info else None
    return None


def provider_at(url: str) -> str:
    """The id of the provider whose API has this address; empty when none is known to."""
    return next((item.id for item in providers if re.match(item.api_pattern, url)), "")


def maker_of(model: str) -> str:
    """The id of the provider whose own models are called so, such as openai for gpt-4o; empty when none are."""
    names = {model.lower(), model.lower().rpartition("/")[2]} - {""}
    return next(
        (of.id for of in providers if of.model_match is not None and any(map(of.model_match.is_match, names))), ""
    )


@cache
def token_models() -> tuple[tuple[str, str], ...]:
    """(provider, model) of everything in the list that is priced per token."""
    return tuple((of.id, info.id) for of in providers for info in of.models if any(_token_prices(info)))


def _token_prices(info: ModelInfo) -> Iterator[ModelPrice]:
    listed = [info.prices] if isinstance(info.prices, ModelPrice) else [item.prices for item in info.prices]
    return (prices for prices in listed if prices.input_mtok is not None and prices.output_mtok is not None)


def dated(model: str, provider: str) -> list[tuple[date | None, Rates]]:
    """Every list price of a model with the day it starts (None: from the beginning), oldest first."""
    found = _find(model, provider)
    if found is None:
        return []
    of, info = found
    listed = info.prices
    if isinstance(listed, ModelPrice):
        return []
    rows = [(_start(item), _rates(item.prices, _source(of, info, ""))) for item in listed]
    return sorted(rows, key=lambda row: row[0] or date.min)


def _start(price: ConditionalPrice) -> date | None:
    return price.constraint.start_date if isinstance(price.constraint, StartDateConstraint) else None


def _first_day(info: ModelInfo) -> date | None:
    """None when a price holds from the beginning."""
    if isinstance(info.prices, ModelPrice) or any(item.constraint is None for item in info.prices):
        return None
    starts = [start for item in info.prices if (start := _start(item)) is not None]
    return min(starts, default=None)


def _is_batch(variant: PriceVariant, when: datetime) -> bool:
    active = variant.constraint is None or variant.constraint.active(when)
    return active and variant.when == {"processing": "batch"}


def _rates(prices: ModelPrice, source: str) -> Rates:
    return Rates(**{name: _rate(getattr(prices, key)) for name, key in _KEYS.items()}, source=source)


def _rate(price: Decimal | TieredPrices | None) -> Rate | None:
    if isinstance(price, TieredPrices):
        return Rate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))
    return None if price is None else Rate(price)


def _source(of: Provider, info: ModelInfo, words: str) -> str:
    return ", ".join(filter(None, (f"{of.name} list price of {info.id}", words, PACKAGE)))
