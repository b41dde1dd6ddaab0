"""Dated list prices: the account's own arithmetic against the package's, over all models."""

import random
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import calc_price
from genai_prices.types import Usage as PackageUsage
from hypothesis import given
from hypothesis import strategies as st

from runners.prices import lists
from runners.prices.cost import Rate, Rates, api_cost
from runners.prices.usage import Usage
from runners.prices.usd import Usd

DAY = datetime(2026, 11, 1, 12, tzinfo=UTC)
tokens = st.integers(0, 10**9)
rates = st.decimals(0, 1000, places=6, allow_nan=False)


def test_costs_are_those_of_the_package_for_its_models():
    """For every class that both price: 200 models, each below and above its tiers."""
    picked = random.Random(4).sample(lists.token_models(), 200)
    compared = 0
    for provider, model in picked:
        found = lists.quote(model, provider, at=DAY)
        if found.rates is None or found.rates.input is None or found.rates.output is None:
            continue
        for usage in (Usage(1000, 500, cache_read=200), Usage(900_000, 5_000, cache_read=100_000)):
            reported = PackageUsage(
                input_tokens=usage.input, output_tokens=usage.output, cache_read_tokens=usage.cache_read
            )
            theirs = calc_price(reported, model, provider_id=provider, genai_request_timestamp=DAY)
            ours = api_cost(usage, found.rates)
            per_request = getattr(theirs.model_price, "requests_kcount", None)
            if per_request is None and theirs.total_price == theirs.input_price + theirs.output_price:
                assert ours.usd == Usd(theirs.total_price), (provider, model, usage)
                compared += 1
    assert compared > 300


def test_a_price_is_that_of_its_day():
    before = lists.quote("o3", "openai", at=datetime(2025, 6, 9, tzinfo=UTC)).rates
    after = lists.quote("o3", "openai", at=datetime(2025, 6, 11, tzinfo=UTC)).rates
    assert (before.output.base, after.output.base) == (Decimal(40), Decimal(8))
    assert [day for day, _ in lists.dated("o3", "openai")][1].isoformat() == "2025-06-10"


def test_batch_is_half_where_the_list_has_it_and_unknown_elsewhere():
    plain = lists.quote("claude-sonnet-4-5", "anthropic").rates
    batch = lists.quote("claude-sonnet-4-5", "anthropic", batch=True).rates
    assert batch.output.base * 2 == plain.output.base
    early = lists.quote("claude-sonnet-4-5", "anthropic", at=datetime(2026, 1, 1, tzinfo=UTC), batch=True)
    assert early.rates is None
    assert "No batch price is known" in early.reason


def test_prices_with_cheaper_hours_are_bounded_by_the_dearest():
    at = datetime(2025, 7, 1, 20, tzinfo=UTC)
    cheap = lists.quote("deepseek-chat", "deepseek", at=at).rates
    dear = lists.dearest("deepseek-chat", "deepseek", at=at).rates
    assert cheap.output.base < dear.output.base


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("http://gpu-1:8000", ""),
        ("http://127.0.0.1:8080/v1", ""),
    ],
)
def test_the_address_tells_the_provider(url, provider):
    assert lists.provider_at(url) == provider


def test_a_price_names_where_it_is_from():
    found = lists.quote("gpt-4o", at=DAY)
    assert found.rates.source.startswith("OpenAI list price of gpt-4o, price of 2026-11-01, genai-prices")


def test_a_list_of_zeros_is_free_and_a_missing_rate_is_not():
    assert Rates(Rate(Decimal(0)), Rate(Decimal(0))).free
    assert not Rates(Rate(Decimal(0)), None).free
    assert not Rates(Rate(Decimal(0)), Rate(Decimal(0), ((1000, Decimal(1)),))).free


@given(tokens, tokens, rates, rates)
def test_a_cost_is_exact_in_decimal(given_tokens, made, price_in, price_out):
    found = api_cost(Usage(given_tokens, made), Rates(Rate(price_in), Rate(price_out)))
    assert found.usd.amount * 1_000_000 == given_tokens * price_in + made * price_out


@given(tokens, tokens, rates, rates)
def test_a_hundred_requests_cost_exactly_a_hundred_times_one(given_tokens, made, price_in, price_out):
    one = api_cost(Usage(given_tokens, made), Rates(Rate(price_in), Rate(price_out))).usd
    assert Usd.total([one] * 100).amount == one.amount * 100


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6), rates, rates)
def test_a_longer_prompt_never_costs_less_when_tiers_rise(one, other, threshold, base, more):
    rate = Rate(base, ((threshold, base + more),))
    shorter, longer = sorted((one, other))
    price = Rates(rate, Rate(Decimal(0)))
    assert api_cost(Usage(shorter, 0), price).usd <= api_cost(Usage(longer, 0), price).usd


@given(st.integers(1, 10**7), rates, rates)
def test_the_tier_begins_one_token_above_the_threshold(threshold, base, tier):
    rate = Rate(base, ((threshold, tier),))
    assert (rate.at(threshold).rate, rate.at(threshold + 1).rate) == (base, tier)
