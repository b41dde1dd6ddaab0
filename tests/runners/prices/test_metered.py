"""Measured requests are billed one by one: alike ones together, each at the tier of its own prompt."""

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runners.load.records import SCHEMA
from runners.prices.cost import Rate, Rates, api_cost
from runners.prices.metered import bill, metered, spent_usd
from runners.prices.usage import Usage

RATES = Rates(
    Rate(Decimal(1), ((100, Decimal(2)),)),
    Rate(Decimal(5), ((100, Decimal(10)),)),
    cache_read=Rate(Decimal("0.1"), ((100, Decimal("0.2")),)),
)
CHECK_USD = Decimal("0.0216")  # 10 requests of 1000 tokens, which are above the tier, and 16
counts = st.integers(0, 300)


def rows(*usages, sent=True):
    """Request rows of (input, cached, output, reasoning)."""
    names = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    made = [
        dict.fromkeys(SCHEMA.names) | dict(zip(names, usage, strict=True)) | {"sent_ns": 1 if sent else None}
        for usage in usages
    ]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def test_each_request_has_its_own_tier_and_cached_tokens_their_rate():
    found = bill(metered(rows((100, 40, 10, 0), (101, 40, 10, 0), (101, 40, 10, 0))).usages, RATES)
    low = 60 * 1 + 40 * Decimal("0.1") + 10 * 5
    high = 61 * 2 + 40 * Decimal("0.2") + 10 * 10
    assert found.usd.amount == (low + 2 * high) / 1_000_000
    assert found.tiered == 2
    assert {line.kind: (line.tokens, line.rates) for line in found.charges}["output"] == (30, (5, 10))


@given(st.lists(st.tuples(counts, counts, counts, counts), max_size=8))
def test_alike_requests_together_cost_what_each_costs_alone(usages):
    found = metered(rows(*usages))
    alone = [api_cost(usage, RATES).usd.amount for usage, count in found.usages for _ in range(count)]
    assert bill(found.usages, RATES).usd.amount == sum(alone, Decimal(0))
    assert found.requests == len(usages)


def test_what_is_not_known_is_counted_apart():
    found = metered(rows((None, None, 5, None), (7, None, 5, None), (7, 0, None, None), (7, 3, 5, 2)))
    assert (found.requests, found.unknown, found.cached_unknown) == (2, 2, 1)
    assert [found.total(name) for name in ("input", "cache_read", "output", "reasoning")] == [14, 3, 10, 2]


def test_an_unknown_rate_leaves_the_bill_unknown():
    found = bill([(Usage(5, 5), 2)], Rates(RATES.input, None))
    assert (found.usd, found.reason) == (None, "The price list has no rate for output tokens.")


@pytest.mark.parametrize(
    ("made", "apart", "output"), [((5, 0, 10, 4), False, 10), ((5, 0, 10, 4), True, 14), ((5, 0, 3, 4), False, 7)]
)
def test_reasoning_is_within_the_output_unless_it_was_reported_apart(made, apart, output):
    assert metered(rows(made), reasoning_apart=apart).total("output") == output


def test_what_was_spent_is_the_check_and_what_was_sent_in_any_parts():
    whole = rows((50, 0, 10, 0), (50, 0, 10, 0), (None, None, None, None))
    worst = (80, 20)
    usd = CHECK_USD + (2 * (50 + 50) + 80 + 100) * Decimal(1) / 1_000_000
    assert spent_usd([whole], RATES, worst) == usd
    assert spent_usd([whole.slice(0, 1), whole.slice(1)], RATES, worst) == usd
    assert spent_usd([rows((50, 0, 10, 0), sent=False)], RATES, worst) == CHECK_USD
    assert spent_usd([], RATES, worst) == CHECK_USD
