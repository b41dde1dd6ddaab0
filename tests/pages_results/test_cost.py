"""The Cost and Energy tabs: what the measured tokens cost and emitted, on a stated basis, of a stated day."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.core.files.base import ContentFile
from django.test import Client

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Accelerator, AcceleratorPrice, EmbodiedFactors, Site, today
from observatory.pages.results import RunResults
from observatory.pages.run_carbon import embodied
from observatory.pages.run_cost import Choice, RunCost, choice
from observatory.runs.models import Run
from observatory.runs.pricing import Factors, price_again, pricings
from observatory.theory.accounts.hourly import Basis
from tests import factories
from tests.pages_results.test_run import page
from tests.simulation import Plan

pytestmark = pytest.mark.django_db
PLAN = Plan(levels=(1, 2), requests=60, output_tokens=24, pue=1.2)
MADE = {"accelerator_made_kg": 164, "server_made_kg": 5700, "accelerators_per_server": 8, "lifetime_years": 3}


@pytest.fixture
def at_a_site(db: Any) -> Benchmark:
    """A benchmark on two cards that cost 30,000 $ each, in a hall whose factors changed on 1 January 2026."""
    made = factories.benchmark(plan=PLAN)
    hall = Site.objects.create(slug="hall", name="Hall")
    hall.factors.create(
        effective_from=date(2026, 1, 1), pue=1.2, wue_l_per_kwh=1.8, electricity_usd_per_kwh=0.1, grid_g_per_kwh=400,
        grid_market_g_per_kwh=50, source="meter",
    )  # fmt: skip
    card = Accelerator.objects.create(slug="card", name="Card", vendor="Maker")
    AcceleratorPrice.objects.create(
        accelerator=card, provider="shop", kind="purchase", effective_from=date(2026, 1, 1), purchase_usd=30_000
    )
    made.deployment.pools.create(accelerator=card, count=2)
    made.deployment.site, made.deployment.runs_on_cpu = hall, False
    made.deployment.save()
    return made


def cost(run: Run, **query: str) -> RunCost:
    return RunCost(RunResults(run), choice(query))


def first_row(run: Run, **query: str) -> Any:
    found = cost(run, **query)
    return found.row(found.results.stages[0])


def test_rent_at_full_use_is_what_the_instrument_reported(at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    row = first_row(run)
    for key, value in (
        ("usd_per_mtok_output", row.usd_per_mtok_output),
        ("usd_per_mtok_total", row.usd_per_mtok_total),
    ):
        assert value == pytest.approx(row.stage.value(key))
    assert row.usd_per_query == pytest.approx(row.stage.value("usd_per_query"))


def test_half_the_utilisation_doubles_rent_and_leaves_electricity_and_api_alone(at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    for basis, times in (("rent", 2), ("own", 2), ("electricity", 1), ("api", 1)):
        full, half = (first_row(run, basis=basis, utilisation=share, api="openai/gpt-4o") for share in ("100", "50"))
        assert half.usd_per_mtok_output == pytest.approx(times * full.usd_per_mtok_output)


def test_own_is_purchase_over_its_years_and_electricity(at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    row = first_row(run, basis="own", years="5")
    power_kw = row.stage.value("power_w") / 1e3
    assert row.usd_per_hour == pytest.approx(60_000 / (5 * 8760) + power_kw * 1.2 * 0.1)
    assert row.mark == "assumed"


def test_electricity_alone_is_joules_times_pue_times_price(at_a_site: Benchmark) -> None:
    row = first_row(factories.finished_run(at_a_site, PLAN), basis="electricity")
    joules = row.stage.value("power_w") / row.stage.value("output_tokens_per_s")
    assert row.usd_per_mtok_output == pytest.approx(joules * 1.2 * 0.1 / 3.6)


def test_the_api_charges_the_measured_tokens(at_a_site: Benchmark) -> None:
    """128 tokens in and 24 out at 2.5 and 10 $/M."""
    row = first_row(factories.finished_run(at_a_site, PLAN), basis="api", api="openai/gpt-4o")
    assert row.usd_per_query == pytest.approx((128 * 2.5 + 24 * 10) / 1e6)
    assert row.how.startswith("OpenAI list price of gpt-4o")
    assert "over 60 good requests: 7 680 prompt tokens, 0 of them cached, and 1 440 output tokens" in row.how


def with_tokens(run: Run, **columns: list[int | None]) -> Run:
    """The run with token counts that repeat over its request rows."""
    with run.requests_file.open("rb") as file:
        rows = pq.read_table(file)
    for name, values in columns.items():
        made = pa.array([values[index % len(values)] for index in range(rows.num_rows)], rows.schema.field(name).type)
        rows = rows.set_column(rows.schema.get_field_index(name), name, made)
    buffer = BytesIO()
    pq.write_table(rows, buffer)
    run.requests_file.save("requests.parquet", ContentFile(buffer.getvalue()))
    return Run.objects.get(pk=run.pk)


def test_the_api_charges_cached_tokens_and_reasoning_at_their_rates(user_client: Client, at_a_site: Benchmark) -> None:
    """gpt-4o: 2.5 fresh, 1.25 cached, 10 output, of which reasoning is a part."""
    run = with_tokens(factories.finished_run(at_a_site, PLAN), cached_tokens=[96], reasoning_tokens=[20])
    row = first_row(run, basis="api", api="openai/gpt-4o")
    assert row.usd_per_query == pytest.approx((32 * 2.5 + 96 * 1.25 + 24 * 10) / 1e6)
    assert row.usd_per_mtok_total == pytest.approx(row.usd_per_query * 1e6 / 152)
    assert row.mark == "measured"
    text = page(user_client, run, "?tab=cost&basis=api&api=openai/gpt-4o")
    assert "cached read" in text
    assert "5 760 of them cached" in text
    assert "1 200 of them reasoning" in text


def test_each_request_has_the_tier_of_its_own_prompt(at_a_site: Benchmark) -> None:
    """gemini-2.5-pro: 1.25 and 10 $/M, 2.5 and 15 above 200,000 prompt tokens; half of the requests are above."""
    run = with_tokens(factories.finished_run(at_a_site, PLAN), input_tokens=[200_000, 200_001])
    row = first_row(run, basis="api", api="google/gemini-2.5-pro")
    low, high = 200_000 * 1.25 + 24 * 10, 200_001 * 2.5 + 24 * 15
    assert row.usd_per_query == pytest.approx((low + high) / 2e6)
    assert "30 prompts are above a tier" in row.how


def test_cached_tokens_that_nobody_told_are_billed_as_none_and_assumed(at_a_site: Benchmark) -> None:
    run = with_tokens(factories.finished_run(at_a_site, PLAN), cached_tokens=[None])
    row = first_row(run, basis="api", api="openai/gpt-4o")
    assert row.usd_per_query == pytest.approx((128 * 2.5 + 24 * 10) / 1e6)
    assert (row.mark, "was not reported: billed as none" in row.how) == ("assumed", True)


def test_requests_without_counts_are_left_out_and_said(at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    some = first_row(with_tokens(run, output_tokens=[24, None]), basis="api", api="openai/gpt-4o")
    assert "over 30 good requests, 30 more without token counts left out" in some.how
    none = first_row(with_tokens(run, output_tokens=[None]), basis="api", api="openai/gpt-4o")
    assert (none.usd_per_query, none.reason) == (None, "its token counts are unknown")


def test_the_batch_price_halves_the_api_and_moves_the_break_even(at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    plain, batch = (cost(run, basis="api", api="openai/gpt-4o", batch=asked) for asked in ("", "1"))
    stage = plain.results.stages[0]
    assert batch.charged(stage).usd_per_query * 2 == plain.charged(stage).usd_per_query
    assert float(batch.break_even(stage)[0]) == pytest.approx(2 * float(plain.break_even(stage)[0]))


def test_a_model_is_priced_as_on_the_day_of_the_run(at_a_site: Benchmark) -> None:
    """o3 cost 10 $/M until 10 June 2025, and 2 $/M since."""
    run = factories.finished_run(at_a_site, PLAN)
    Run.objects.filter(pk=run.pk).update(started_at=datetime(2025, 6, 9, 12, tzinfo=UTC))
    rates = cost(Run.objects.get(pk=run.pk), api="openai/o3").rates[0]
    assert rates.input.base == 10
    again = price_again(run, date(2025, 6, 11))
    assert cost(Run.objects.get(pk=run.pk), api="openai/o3", pricing=str(again.pk)).rates[0].input.base == 2


def test_a_paid_run_keeps_the_rates_that_it_was_queued_with(at_a_site: Benchmark) -> None:
    endpoint = at_a_site.deployment.endpoint
    endpoint.billing, endpoint.input_usd_per_mtok, endpoint.output_usd_per_mtok = "tokens", Decimal("0.3"), Decimal(2)
    endpoint.save()
    run = factories.finished_run(at_a_site, PLAN)
    endpoint.billing, endpoint.input_usd_per_mtok = "machine", Decimal(30)
    endpoint.save()
    run = Run.objects.get(pk=run.pk)
    assert first_row(run, basis="api").usd_per_query == pytest.approx((128 * 0.3 + 24 * 2) / 1e6)
    endpoint.billing = "tokens"
    endpoint.save()
    again = price_again(Run.objects.get(pk=run.pk), today())
    assert first_row(run, basis="api", pricing=str(again.pk)).usd_per_query == pytest.approx((128 * 30 + 24 * 2) / 1e6)


@pytest.mark.parametrize(
    ("plan", "query", "reason"),
    [
        ({"usd_per_hour": None}, {}, "the deployment had no price"),
        ({}, {"basis": "electricity"}, "PUE and electricity price of the site are not both known"),
        ({"energy": ""}, {"basis": "electricity"}, "energy was not measured"),
        ({}, {"basis": "api"}, "name a model of the price list"),
        ({}, {"basis": "api", "api": "x-9"}, "No list price is known for x-9."),
    ],
)
def test_what_is_unknown_is_a_dash_with_its_reason(
    user_client: Client, plan: dict[str, Any], query: dict[str, str], reason: str
) -> None:
    run = factories.finished_run(plan=Plan(levels=(1,), requests=50, **plan))
    row = first_row(run, **query)
    assert row.usd_per_mtok_output is None
    assert reason in row.reason
    words = "&".join(f"{name}={value}" for name, value in query.items())
    assert reason in page(user_client, run, f"?tab=cost&{words}")


def test_break_even_names_the_utilisation(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    found = cost(run, api="openai/gpt-4o")
    share, _ = found.break_even(found.results.stages[0])
    assert float(share) == pytest.approx(2.4 / (found._api_row(found.results.stages[0]).usd_per_hour))
    text = page(user_client, run, "?tab=cost&api=openai/gpt-4o")
    assert "rent is cheaper above" in text
    assert "API: OpenAI list price of gpt-4o" in text


@pytest.mark.parametrize("query", ["basis=nonsense", "utilisation=0", "utilisation=x", "years=-1", "capex_usd=1e99"])
def test_a_choice_that_cannot_be_read_is_left_out(user_client: Client, at_a_site: Benchmark, query: str) -> None:
    name, _, value = query.partition("=")
    assert choice({name: value}) == Choice(Basis.RENT, 1.0, None, 4.0, "", "")
    assert "never add the two" in page(user_client, factories.finished_run(at_a_site, PLAN), f"?tab=cost&{query}")


def test_rent_on_demand_pays_only_the_hours_that_serve(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    full = first_row(run).usd_per_mtok_output
    for terms, times in (("reserved", 4), ("on-demand", 1), ("nonsense", 4)):
        assert first_row(run, utilisation="25", terms=terms).usd_per_mtok_output == pytest.approx(times * full)
    own = first_row(run, basis="own").usd_per_mtok_output
    assert first_row(run, basis="own", utilisation="50", terms="on-demand").usd_per_mtok_output == pytest.approx(
        2 * own
    )
    found = page(user_client, run, "?tab=cost&terms=on-demand&utilisation=25&api=openai/gpt-4o")
    assert "on-demand: only hours that serve are paid" in found
    assert "is cheaper at any utilisation" in found
    assert "At 25 % utilisation" not in found


# another day


def change_the_site(run: Run) -> None:
    run.deployment.site.factors.create(effective_from=today(), pue=1.5, electricity_usd_per_kwh=0.3, source="new")
    run.deployment.usd_per_hour = Decimal("4.8")
    run.deployment.save()


def test_a_stored_run_keeps_the_factors_of_its_day(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    before = {basis: first_row(run, basis=basis).usd_per_mtok_output for basis in ("rent", "own", "electricity")}
    change_the_site(run)
    run = Run.objects.get(pk=run.pk)
    after = {basis: first_row(run, basis=basis).usd_per_mtok_output for basis in ("rent", "own", "electricity")}
    assert before == after


def test_a_run_is_counted_again_only_on_purpose_and_both_stand(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    old = first_row(run).usd_per_mtok_output
    change_the_site(run)
    answer = user_client.post(f"/runs/{run.pk}/price", {"day": today().isoformat()})
    made = run.pricings.get()
    assert answer.url == f"/runs/{run.pk}?tab=cost&pricing={made.pk}#tab"
    assert (made.factors["pue"], made.factors["usd_per_hour"], made.made_by.username) == (1.5, 4.8, "ada")
    assert first_row(run).usd_per_mtok_output == old
    assert first_row(run, pricing=str(made.pk)).usd_per_mtok_output == pytest.approx(2 * old)
    found = page(user_client, run, f"?tab=cost&pricing={made.pk}")
    assert "counted again on purpose" in found
    assert "when it was queued" in found


def test_the_rent_names_its_own_day(user_client: Client, at_a_site: Benchmark) -> None:
    """A deployment keeps one rent: put to another day's factors it is still today's."""
    run = factories.finished_run(at_a_site, PLAN)
    made = price_again(run, date(2026, 1, 5))
    found = page(user_client, run, f"?tab=cost&pricing={made.pk}")
    assert f"rent as of {today().isoformat()}" in found
    assert "2026-01-05, counted again on purpose" in found


def test_carbon_follows_the_pricing_that_is_chosen(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    run.deployment.site.factors.create(effective_from=today(), pue=1.2, grid_g_per_kwh=800, source="new")
    made = price_again(run, today())
    own, again = (
        json.loads(user_client.get(f"/runs/{run.pk}/chart/carbon.json?stage=0&pricing={pk}").content)["figure"]["data"][
            0
        ]["x"][0]
        for pk in ("", made.pk)
    )
    assert again == pytest.approx(2 * own)
    assert "counted again on purpose" in page(user_client, run, f"?tab=energy&stage=0&pricing={made.pk}")
    form = user_client.get(f"/runs/{run.pk}?tab=energy&pricing={made.pk}").content.decode()
    assert f'<input type="hidden" name="pricing" value="{made.pk}">' in form
    assert "counted again on purpose" not in page(user_client, run, "?tab=energy&stage=0")


def test_an_earlier_day_has_the_factors_of_that_day(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    change_the_site(run)
    user_client.post(f"/runs/{run.pk}/price", {"day": (today() - timedelta(days=1)).isoformat()})
    assert run.pricings.get().factors["pue"] == 1.2


def test_a_day_that_is_none_changes_nothing(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    answer = user_client.post(f"/runs/{run.pk}/price", {"day": "soon"}, follow=True)
    assert "Give a day such as 2026-11-29" in answer.content.decode()
    assert not run.pricings.exists()


# carbon


def test_carbon_is_named_by_its_basis_and_water_takes_no_pue(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    found = page(user_client, run, "?tab=energy&stage=0")
    wh = RunResults(run).stages[0].value("wh_per_query")
    assert "Carbon, location based" in found
    assert f"{wh / 1e3 * 1.8 * 1e3:.3g}"[:4] in found
    chart = json.loads(user_client.get(f"/runs/{run.pk}/chart/carbon.json?stage=0").content)
    bars = chart["figure"]["data"][0]
    assert bars["x"] == [pytest.approx(wh / 1e3 * 1.2 * 400)]
    assert chart["figure"]["data"][1]["x"] == [pytest.approx(wh / 1e3 * 1.2 * 50)]


def test_other_places_stand_beside_with_their_own_pue_and_grid(user_client: Client, at_a_site: Benchmark) -> None:
    for name, pue, grid in (("North", 1.1, 20), ("South", 1.5, 800), ("Unknown", None, 500)):
        place = Site.objects.create(slug=name.lower(), name=name)
        place.factors.create(effective_from=date(2026, 1, 1), pue=pue, grid_g_per_kwh=grid)
    run = factories.finished_run(at_a_site, PLAN)
    chart = json.loads(user_client.get(f"/runs/{run.pk}/chart/carbon.json").content)
    assert [row[0] for row in chart["rows"]] == ["Hall", "North", "South"]


def test_the_chart_of_costs_has_a_line_for_each_known_basis(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    chart = json.loads(user_client.get(f"/runs/{run.pk}/chart/cost.json?basis=own").content)
    assert [line["name"] for line in chart["figure"]["data"]] == ["Rent", "Own", "Electricity only"]
    assert [line["line"]["width"] for line in chart["figure"]["data"]] == [2, 4, 2]
    assert "lacks a price" in chart["note"]


def test_the_median_query_stands_beside_the_mean(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(1, 2, 4), requests=120, output_tokens=32))
    found = page(user_client, run, "?tab=energy")
    assert "Energy per query, median" in found


def test_a_run_that_cost_more_than_its_reserve_says_so(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    Run.objects.filter(pk=run.pk).update(reserved_usd=Decimal("0.5"), settled_usd=Decimal("0.4"))
    assert "more than the" not in page(user_client, run)
    Run.objects.filter(pk=run.pk).update(settled_usd=Decimal("0.75"))
    assert "It cost $0.75, more than the $0.50 that were set aside" in page(user_client, run)


def test_making_the_hardware_is_an_assumed_share_of_its_own(user_client: Client, at_a_site: Benchmark) -> None:
    """2 x (164 + 5700 / 8) kg over three years of this throughput."""
    EmbodiedFactors.objects.create(effective_from=date(2025, 1, 1), **MADE)
    run = factories.finished_run(at_a_site, PLAN)
    stage = RunResults(run).stages[0]
    found = embodied(pricings(run)[0].factors, stage)
    lifetime_queries = (stage.value("request_per_s") or 0) * 3 * 365 * 86_400
    assert found.g == pytest.approx(2 * (164 + 5700 / 8) * 1e3 / lifetime_queries)
    html = page(user_client, run, "?tab=energy&stage=0")
    assert "Carbon of making the hardware" in html
    assert "2 × (164 kg of Card + 5700 kg of a server / 8) over 3 years, as known from 2025-01-01 on" in html
    assert embodied(Factors(), stage).g is None


def test_a_stored_run_keeps_the_carbon_of_making_and_is_counted_again_on_purpose(at_a_site: Benchmark) -> None:
    EmbodiedFactors.objects.create(effective_from=date(2025, 1, 1), **MADE)
    run = factories.finished_run(at_a_site, PLAN)
    stage = RunResults(run).stages[0]
    before = embodied(pricings(run)[0].factors, stage)
    card = Accelerator.objects.get(slug="card")
    EmbodiedFactors.objects.create(
        accelerator=card, effective_from=today(), **{**MADE, "accelerator_made_kg": 328, "server_made_kg": 11_400}
    )
    price_again(run, today() - timedelta(days=1))
    price_again(run, today())
    own, yesterday, now = (embodied(one.factors, stage) for one in pricings(Run.objects.get(pk=run.pk)))
    assert own == before
    assert yesterday.g == before.g
    assert now.g == pytest.approx(2 * (before.g or 0))


def test_nothing_known_of_making_it_is_said(user_client: Client, at_a_site: Benchmark) -> None:
    run = factories.finished_run(at_a_site, PLAN)
    assert "nothing is known of making Card" in page(user_client, run, "?tab=energy&stage=0")
