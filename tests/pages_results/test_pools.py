"""Deployments whose prefill and decode run on accelerators of their own: energy and cost by pool."""

from datetime import date
from typing import Any

import pytest
from django.test import Client

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Accelerator, AcceleratorPrice, Site
from observatory.compare.setups import setup_differences
from observatory.compare.sources import run_setup
from observatory.pages import run_pool_cost, run_pools
from observatory.pages.account_charts import ledger_bars
from observatory.pages.results import RunResults
from observatory.pages.run_cost import RunCost, choice
from observatory.runs.models import Run
from observatory.runs.pricing import price_again, pricings
from observatory.runs.spec import build
from tests import factories
from tests.pages_results.test_run import page
from tests.simulation import Plan

pytestmark = pytest.mark.django_db
PLAN = Plan(levels=(1, 2), requests=60, output_tokens=24, pue=1.2, pools=("prefill", "decode"), usd_per_hour=10.0)


@pytest.fixture
def card(db: Any) -> Accelerator:
    made = Accelerator.objects.create(slug="card", name="Card", vendor="Maker")
    AcceleratorPrice.objects.create(
        accelerator=made, provider="shop", kind="purchase", effective_from=date(2026, 1, 1), purchase_usd=30_000
    )
    return made


@pytest.fixture
def apart(card: Accelerator) -> Benchmark:
    """One card for prefill at 4 $/h, three for decode at 6 $/h."""
    made = factories.benchmark(plan=PLAN)
    made.deployment.pools.create(name="prefill", accelerator=card, gpus="0", usd_per_hour=4)
    made.deployment.pools.create(name="decode", accelerator=card, count=3, usd_per_hour=6)
    hall = Site.objects.create(slug="hall", name="Hall")
    hall.factors.create(effective_from=date(2026, 1, 1), pue=1.2, electricity_usd_per_kwh=0.1)
    made.deployment.site, made.deployment.runs_on_cpu = hall, False
    made.deployment.save()
    return made


def test_pools_sum_exactly_to_the_accelerators(user_client: Client, apart: Benchmark) -> None:
    run = factories.finished_run(apart, PLAN)
    stage = RunResults(run).stages[0]
    prefill, decode = run_pools.energies(pricings(run)[0].factors, stage)
    assert (prefill.name, decode.name, decode.hardware) == ("prefill", "decode", "3× Card")
    assert prefill.energy_j + decode.energy_j == stage.stage.energy["narrow_j"]  # type: ignore[operator]
    assert prefill.share + decode.share == pytest.approx(1)  # type: ignore[operator]
    assert decode.energy_j > prefill.energy_j  # type: ignore[operator]
    html = page(user_client, run, "?tab=energy&stage=0")
    assert "Pools of accelerators" in html
    assert "decode: NVIDIA H100" in html


def test_the_bars_of_the_ledger_name_and_colour_each_pool(apart: Benchmark) -> None:
    stage = RunResults(factories.finished_run(apart, PLAN)).stages[0]
    traces = ledger_bars(stage.stage.energy).figure["data"]
    assert [trace["name"] for trace in traces][:2] == ["prefill: NVIDIA H100", "decode: NVIDIA H100"]
    assert len({trace["marker"]["color"] for trace in traces}) == len(traces)


@pytest.mark.parametrize("basis", ["rent", "own", "electricity"])
def test_the_cost_of_the_pools_sums_to_that_of_the_deployment(
    user_client: Client, apart: Benchmark, basis: str
) -> None:
    run = factories.finished_run(apart, PLAN)
    cost = RunCost(RunResults(run), choice({"basis": basis, "utilisation": "50"}))
    stage = cost.results.stages[0]
    whole, pools = cost.row(stage), run_pool_cost.costs(cost, stage)
    assert [pool.name for pool in pools] == ["prefill", "decode", *(["rest"] if basis != "rent" else [])]
    for key in ("usd_per_hour", "usd_per_mtok_output", "usd_per_mtok_total", "usd_per_query"):
        assert sum(getattr(pool.row, key) for pool in pools) == pytest.approx(getattr(whole, key), rel=1e-9)
    if basis == "rent":
        assert [pool.row.usd_per_hour for pool in pools] == [8, 12]
    html = page(user_client, run, f"?tab=cost&stage=0&basis={basis}")
    assert "by pool: the rows sum to the row above" in html


def test_a_purchase_that_was_typed_is_of_the_whole_and_is_not_divided(apart: Benchmark) -> None:
    run = factories.finished_run(apart, PLAN)
    cost = RunCost(RunResults(run), choice({"basis": "own", "capex_usd": "1000"}))
    assert [pool.row.usd_per_hour for pool in run_pool_cost.costs(cost, cost.results.stages[0])][:2] == [None, None]


def test_one_pool_looks_as_before(user_client: Client, card: Accelerator) -> None:
    made = factories.benchmark(plan=PLAN)
    made.deployment.pools.create(accelerator=card, count=2)
    run = factories.finished_run(made, Plan(levels=(1, 2), requests=60, output_tokens=24))
    assert "Pools of accelerators" not in page(user_client, run, "?tab=energy&stage=0")
    assert "by pool: the rows sum" not in page(user_client, run, "?tab=cost&stage=0")
    assert run.setup["hardware"] == "2x Card"
    assert build(made).power.pools == ()


def test_setup_and_comparison_name_what_differs_in_a_pool(user_client: Client, apart: Benchmark) -> None:
    run = factories.finished_run(apart, PLAN)
    assert "pools.2.accelerator.name Card" in page(user_client, run, "?tab=setup")
    apart.deployment.pools.filter(name="decode").update(count=4)
    other = factories.finished_run(Benchmark.objects.get(pk=apart.pk), PLAN)
    found = {item.name: item.values for item in setup_differences([run_setup(run), run_setup(other)])}
    assert found["deployment.pools.2.count"] == (3, 4)


def test_the_instrument_is_told_the_pools(apart: Benchmark) -> None:
    spec = build(apart)
    assert [(pool.name, pool.gpus) for pool in spec.power.pools] == [("prefill", ("0",)), ("decode", ())]
    assert apart.deployment.hardware == "prefill 1x Card + decode 3x Card"


def test_a_run_keeps_the_parts_of_the_price_and_is_counted_again_on_purpose(apart: Benchmark) -> None:
    run = factories.finished_run(apart, PLAN)
    apart.deployment.pools.filter(name="decode").update(usd_per_hour=16)
    price_again(run, date(2026, 1, 2))
    own, again = pricings(Run.objects.get(pk=run.pk))
    assert [pool["usd_per_hour"] for pool in own.factors.pools] == [4, 6]
    assert [pool["usd_per_hour"] for pool in again.factors.pools] == [4, 16]
