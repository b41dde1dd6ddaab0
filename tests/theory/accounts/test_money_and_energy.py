"""Hours, ledgers, carbon, trends: known values and laws that must hold for any."""

from datetime import date, timedelta
from decimal import Decimal
from math import exp, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from observatory.theory import registry
from observatory.theory.accounts import hourly, price_history, trend
from observatory.theory.accounts.calculators.price_trend import PRICE_TREND
from observatory.theory.accounts.hourly import Terms
from observatory.theory.accounts.ledger import Layer, ledger, ratio
from observatory.theory.calculator import Refused
from runners.metrics import Mark

amounts = st.floats(0, 1e6)


def calc(name, **inputs):
    calculator = registry.BY_NAME[name]
    return calculator.run(calculator.read({key: str(value) for key, value in inputs.items()}))


def test_reserved_hours_carry_idle_ones_and_hours_on_demand_do_not():
    assert hourly.rent(2.0, 4, utilisation=0.25).usd == 32
    assert hourly.rent(2.0, 4, terms=Terms.ON_DEMAND, utilisation=0.25).usd == 8
    assert hourly.reserved_break_even(1.3, 2.6) == 0.5


def test_an_owned_hour_is_purchase_and_electricity():
    hour = hourly.own(35_040, 4, power_w=1000, pue=1.2, usd_per_kwh=0.1)
    assert (hour.capital_usd, hour.electricity_usd) == pytest.approx((1.0, 0.12))
    assert hour.shared(0.5, "serves").usd == pytest.approx(2 * 1.12)


def test_electricity_per_token_and_per_hour_are_the_same_money():
    """700 W at 1000 tok/s are 0.7 J a token."""
    per_hour = hourly.electricity(700, 1.2, 0.09).usd
    assert hourly.token_price(per_hour, 1000, hourly.Denominator.OUTPUT).usd == pytest.approx(
        hourly.electricity_per_mtok(0.7, 1.2, 0.09)
    )


def test_a_query_costs_its_share_of_the_hour():
    assert calc("gpu-cost", output_tokens_per_s=500, queries_per_s=2, usd_per_accelerator_hour=3.6).usd_per_query == (
        pytest.approx(0.0005)
    )


def test_no_throughput_is_refused_with_what_to_give():
    with pytest.raises(Refused, match="Give tokens or queries per second"):
        calc("gpu-cost", output_tokens_per_s="")


OWN_RATES = {"requests_per_s": 2, "input_tokens": 500, "output_tokens": 100, "input_usd": 1, "output_usd": 5}


def test_break_even_is_where_both_cost_the_same():
    """1000 input and 200 output tok/s at 1 and 5 $/M are 7.20 $ an hour, to the last digit."""
    found = calc("break-even", usd_per_hour="1.8", **OWN_RATES)
    assert found.api_usd_per_full_hour == Decimal("7.2")
    assert found.utilisation == Decimal("0.25")
    assert found.requests_per_hour == 1800
    assert calc("break-even", usd_per_hour=9, **OWN_RATES).verdict == "The API is cheaper at any utilisation."


def test_break_even_against_an_unknown_price_is_unknown():
    found = calc("break-even", api_model="x-9")
    assert (found.utilisation, found.api_usd_per_request, found.verdict) == (
        None,
        None,
        "No list price is known for x-9.",
    )
    assert found.bases[-1].value == "unknown"
    partly = calc("break-even", **OWN_RATES, cache_write_usd=2, convention="anthropic", cache_write_1h_tokens=10)
    assert partly.utilisation is None
    assert "no rate for one-hour cache write" in partly.verdict


def test_break_even_takes_list_prices_of_a_day():
    before, after = (
        calc("break-even", api_model="o3", api_provider="openai", on=day) for day in ("2025-06-09", "2025-06-11")
    )
    assert after.api_usd_per_full_hour * 5 == before.api_usd_per_full_hour
    assert "price of 2025-06-11" in after.bases[-1].basis
    with pytest.raises(Refused, match="not a day"):
        calc("break-even", api_model="o3", on="yesterday")


@pytest.mark.parametrize(
    ("request_", "usd"),
    [
        ({"input_tokens": 1000, "cache_read_tokens": 400}, "0.00564"),  # 600 at 1, 400 at 0.1, 1000 at 5
        ({"input_tokens": 1000, "cache_write_tokens": 400}, "0.0061"),  # 400 at 1.25
        ({"input_tokens": 1000, "reasoning_tokens": 900}, "0.006"),  # inside the output
        ({"input_tokens": 1000, "reasoning_tokens": 900, "convention": "google"}, "0.0105"),  # beside it
        ({"input_tokens": 2000}, "0.007"),  # not above the tier
        ({"input_tokens": 2001}, "0.014002"),  # the whole request at twice the input and the output
        ({"input_tokens": 1000, "batch": "yes", "batch_discount": "0.5"}, "0.003"),
    ],
)
def test_break_even_counts_every_class_tier_and_discount(request_, usd):
    rates = {"input_usd": 1, "output_usd": 5, "cache_read_usd": "0.1", "cache_write_usd": "1.25", "tier_above": 2000,
             "tier_input_usd": 2, "tier_output_usd": 10, "output_tokens": 1000}  # fmt: skip
    found = calc("break-even", usd_per_hour=1, requests_per_s=1, **(rates | request_))
    assert found.api_usd_per_request == Decimal(usd)
    assert found.utilisation * found.api_usd_per_full_hour == pytest.approx(1)


def test_a_batch_price_that_nobody_knows_is_unknown_until_its_discount_is_given():
    plain = calc("api-cost", api_model="deepseek-chat", api_provider="deepseek", on="2026-11-29").usd
    unknown = calc("api-cost", api_model="deepseek-chat", api_provider="deepseek", on="2026-11-29", batch="yes")
    assert (unknown.usd, unknown.reason.endswith("Give the batch discount.")) == (None, True)
    given_ = calc(
        "api-cost",
        api_model="deepseek-chat",
        api_provider="deepseek",
        on="2026-11-29",
        batch="yes",
        batch_discount="0.5",
    )
    assert given_.usd * 2 == plain
    assert given_.price_source.endswith("less 50% for batch as given")
    assert calc("api-cost", batch="yes").usd is None


@given(amounts, amounts, amounts, st.floats(1, 5), st.floats(0, 1))
def test_a_ledger_conserves_energy(accelerator, host, idle, pue, error):
    marks = zip(("accelerator", "host", "idle"), (accelerator, host, idle), strict=True)
    found = ledger([Layer(name, wh, Mark.MEASURED, "", error) for name, wh in marks], pue)
    assert found.it.wh == pytest.approx(accelerator + host + idle)
    assert found.it.wh + found.overhead_wh == pytest.approx(found.full.wh)
    assert found.narrow.wh <= found.it.wh <= found.full.wh * (1 + 1e-12)
    assert found.full.low_wh <= found.full.wh <= found.full.high_wh


def test_a_sum_is_no_better_than_its_weakest_layer():
    found = ledger([Layer("accelerator", 1, Mark.MEASURED, ""), Layer("host", 1, Mark.MODELLED, "")], 1.1)
    assert (found.narrow.mark, found.it.mark, found.full.mark) == (Mark.MEASURED, Mark.MODELLED, Mark.ASSUMED)
    assert found.it.low_wh is None


def test_only_equal_boundaries_have_a_ratio():
    one = ledger([Layer("accelerator", 4.32, Mark.ASSUMED, "")]).it
    other = ledger([Layer("accelerator", 0.34, Mark.ASSUMED, "")]).it
    assert ratio(one, other) == pytest.approx(12.706, abs=0.001)
    wider = ledger([Layer("accelerator", 1, Mark.ASSUMED, ""), Layer("host", 1, Mark.ASSUMED, "")]).it
    with pytest.raises(ValueError, match="same boundary"):
        ratio(one, wider)


@given(st.floats(0.001, 1e6), st.floats(1e-6, 1e4), st.floats(0, 1e4), st.floats(0, 1))
def test_energy_at_a_traffic_is_the_hour_divided_by_its_queries(queries, active, idle_w, busy):
    found = calc("duty-cycle", queries_per_hour=queries, active_wh_per_query=active, idle_w=idle_w, busy_share=busy)
    hour_wh = active * queries + idle_w * (1 - busy)
    assert found.wh_per_query * queries == pytest.approx(hour_wh, rel=1e-9, abs=1e-9)


def test_a_mean_over_unequal_times_is_not_the_integral():
    found = calc("integrate", t_s="0,1,2", power_w="100,100,300", from_s=0, to_s=2)
    assert found.energy_j == pytest.approx(300)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"t_s": "0,1", "power_w": "1"}, "2 times and 1 readings"),
        ({"t_s": "0,1,1", "power_w": "1,1,1"}, "do not rise"),
        ({"from_s": 2, "to_s": 1}, "ends before it begins"),
    ],
)
def test_readings_that_make_no_series_are_refused(inputs, words):
    with pytest.raises(Refused, match=words):
        calc("integrate", **inputs)


def test_a_window_outside_the_readings_has_no_energy_but_a_reason():
    found = calc("integrate", from_s=-5, to_s=2)
    assert (found.energy_j, found.reason) == (None, "window_not_bracketed")


# price trends


def test_a_tenfold_fall_each_year_is_found_again():
    days = [date(2022, 1, 1) + timedelta(days=round(365.25 * year)) for year in range(4)]
    found = trend.fit([(day, 60 / 10**year) for year, day in enumerate(days)])
    assert found.times_per_year == pytest.approx(10, rel=0.01)
    assert found.low <= found.times_per_year <= found.high
    assert found.halving_months == pytest.approx(3.61, abs=0.02)


def test_the_interval_is_that_of_students_t():
    assert [trend.student_t(v) for v in (1, 2, 5, 10, 30)] == pytest.approx(
        [12.7062, 4.3027, 2.5706, 2.2281, 2.0423], abs=1e-4
    )


def test_two_prices_have_a_rate_but_no_interval():
    found = trend.fit([(date(2021, 11, 1), 60.0), (date(2024, 11, 1), 0.06)])
    assert found.times_per_year == pytest.approx(10, rel=0.01)
    assert (found.low, found.high) == (None, None)


def test_a_rising_price_has_no_time_to_half():
    found = trend.fit([(date(2024, 1, 1), 1.0), (date(2025, 1, 1), 2.0)])
    assert found.times_per_year < 1
    assert found.halving_months is None


def test_neighbouring_prices_that_go_together_widen_the_interval():
    """Residuals of a flat line whose neighbours have a correlation of 3/8."""
    days = [date(2024, 1, 1) + timedelta(days=90 * i) for i in range(8)]
    points = [(day, exp(off)) for day, off in zip(days, (1, 1, -1, -1, -1, -1, 1, 1), strict=True)]
    plain, serial = trend.fit(points), trend.fit(points, serial=True)
    assert serial.times_per_year == plain.times_per_year
    assert log(serial.high / serial.low) / log(plain.high / plain.low) == pytest.approx(sqrt((1 + 3 / 8) / (1 - 3 / 8)))
    falling = [(day, 2.0 ** -(day - days[0]).days) for day in days]
    assert trend.fit(falling, serial=True).low == pytest.approx(trend.fit(falling).low)


def test_the_trend_stands_beside_what_was_published_and_what_growth_makes_of_the_bill():
    found = calc("price-trend", times_more_tokens=20, spend_usd_per_month=500, years=2)
    assert (found.published_low, found.published_high) == (5, 900)
    assert found.published_low < found.low < found.times_per_year < found.high < found.published_high
    assert any(study.meaning == "rising" for study in found.studies)
    assert found.spend_change == pytest.approx(20 / found.times_per_year)
    assert found.spend_then_usd_per_month == pytest.approx(500 * found.spend_change**2)
    assert found.price_change == pytest.approx(1 / found.times_per_year**2)
    assert all(row.source for row in (*found.points, *found.studies))


def test_spend_is_drawn_against_the_falling_price():
    """From today's price down: a tenth of the price each year at ten times the tokens leaves the bill as it is."""
    inputs = PRICE_TREND.read({"days": "2024-01-01,2025-01-01,2026-01-01", "usd_per_mtok": "100,10,1", "years": "2"})
    outputs = PRICE_TREND.run(inputs)
    plot = next(plot for plot in PRICE_TREND.plots(inputs, outputs) if plot.title == "Total spend against price")
    fit = next(line for line in plot.lines if line.label == "fit")
    assert (fit.x[0], fit.y[0], plot.now) == (1, 1000, 1)
    assert fit.x[-1] == pytest.approx(0.01, rel=0.02)
    assert fit.y == pytest.approx([1000] * len(fit.y), rel=0.02)
    assert {"lowest published", "highest published"} <= {line.label for line in plot.lines}


def test_every_capability_has_a_trend_with_its_interval():
    found = calc("price-trend").capabilities
    assert [item.score for item in found] == [35, 45, 55, 65, 75, 80]
    assert all(item.low < item.times_per_year < item.high and item.n >= 4 for item in found)
    assert found[0].times_per_year == pytest.approx(19.3, abs=0.1)
    assert (found[0].first_usd, found[0].last_usd) == (60, 0.07)


def test_a_capability_costs_what_the_cheapest_model_at_or_above_its_score_costs():
    found = calc("price-trend", capability="gpqa-80")
    assert [(item.day, item.usd_per_mtok) for item in found.prices] == [
        ("2025-04-04", 10), ("2025-07-01", 8), ("2025-10-01", 8), ("2025-12-17", 3),
    ]  # fmt: skip
    assert min(item.score for item in found.points) >= 80
    blend = calc("price-trend", capability="gpqa-80", price="blend").prices[0]
    assert blend.usd_per_mtok == pytest.approx((3 * 1.25 + 10) / 4)


def test_every_listed_price_names_its_day_and_source():
    found = price_history.listings()
    assert len(found) == 181
    assert sum(item.source.startswith("simonw/llm-prices@723ef0b") for item in found) == 144
    assert all(item.source and (item.score is None or "score: " in item.source) for item in found)
    assert list(found) == sorted(found, key=lambda item: item.day)
    intro = [item for item in found if item.dated_by is price_history.DatedBy.INTRODUCTORY]
    assert [item.model for item in intro] == ["DeepSeek Chat"]
    assert intro[0] not in price_history.capable(0)


def test_prices_of_ones_own_are_fitted():
    found = calc("price-trend", days="2024-01-01,2025-01-01,2026-01-01", usd_per_mtok="16,4,1")
    assert found.times_per_year == pytest.approx(4, rel=0.01)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"days": "2024-01-01", "usd_per_mtok": "1,2"}, "1 days and 2 prices"),
        ({"days": "2024-01-01,soon", "usd_per_mtok": "1,2"}, "Write days as"),
        ({"days": "2024-01-01,2024-01-01", "usd_per_mtok": "1,2"}, "at least two different days"),
    ],
)
def test_prices_that_make_no_trend_are_refused(inputs, words):
    with pytest.raises(Refused, match=words):
        calc("price-trend", **inputs)
