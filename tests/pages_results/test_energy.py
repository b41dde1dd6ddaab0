"""The Energy tab: three windows with a traffic, every instrument over the run, who sampled; the break-even in costs."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from django.test import Client

from observatory.catalog.models import Site
from observatory.pages.results import RunResults
from observatory.pages.run_energy import windows
from observatory.runs.models import Run
from tests import factories
from tests.pages_results.test_run import page
from tests.simulation import Plan

pytestmark = pytest.mark.django_db
PLAN = Plan(levels=(1, 2), requests=80, output_tokens=24, pue=1.2)


def rows(run: Run, traffic: float | None) -> dict[str, Any]:
    results = RunResults(run)
    return {row.name: row for row in windows(results, results.stages[1], traffic)}


def chart(client: Client, run: Run, name: str, query: str = "stage=1") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(client.get(f"/runs/{run.pk}/chart/{name}.json?{query}").content)
    return found


def test_three_windows_and_the_stated_traffic_stand_side_by_side(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    found = rows(run, 500.0)
    steady, duty = found["Steady window"], found["At the stated traffic"]
    assert steady.wh_per_query == pytest.approx(RunResults(run).stages[1].value("wh_per_query"), rel=0.02)
    assert steady.full_wh_per_query == pytest.approx(1.2 * steady.wh_per_query)
    assert found["Whole stage"].queries == pytest.approx(80)
    assert found["Whole run"].queries == 160
    assert duty.wh_per_query > 2 * steady.wh_per_query
    assert duty.low < duty.wh_per_query < duty.high
    told = user_client.get(f"/runs/{run.pk}?tab=energy&stage=1&traffic=500").content.decode()
    assert "At the stated traffic" in told
    assert 'value="500"' in told


@pytest.mark.parametrize(
    ("traffic", "words"), [("", "state the traffic above"), ("1e8", "more than were served here"), ("-1", "state the")]
)
def test_a_traffic_that_cannot_be_counted_with_says_why(user_client: Client, traffic: str, words: str) -> None:
    run = factories.finished_run(plan=PLAN)
    assert words in page(user_client, run, f"?tab=energy&stage=1&traffic={traffic}")


def test_the_traffic_of_the_deployment_is_taken_when_none_is_asked(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    Run.objects.filter(pk=run.pk).update(spec=run.spec | {"account": run.spec["account"] | {"queries_per_hour": 250.0}})
    assert 'value="250"' in user_client.get(f"/runs/{run.pk}?tab=energy&stage=1").content.decode()


def test_every_instrument_is_drawn_under_the_requests_with_idle_power_before(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    found = chart(user_client, run, "power")
    lines = {trace["name"]: trace for trace in found["figure"]["data"] if trace.get("yaxis") == "y2"}
    assert set(lines) == {
        "NVIDIA H100", "NVIDIA H100, instant", "NVIDIA H100, counter", "CPU package 0, counter"
    }  # fmt: skip
    assert any(trace["type"] == "bar" for trace in found["figure"]["data"])
    shaded = found["figure"]["layout"]["shapes"]
    assert len(shaded) == 3
    assert shaded[0]["x0"] == 0  # idle power before the load
    assert found["columns"][1] == "idle before"
    idle = [y for x, y in zip(lines["NVIDIA H100"]["x"], lines["NVIDIA H100"]["y"], strict=True) if 0.2 < x < 2]
    assert max(idle) < 120


def test_a_run_without_samples_has_no_strip(user_client: Client) -> None:
    run = factories.finished_run(plan=replace(PLAN, energy=""))
    assert chart(user_client, run, "power")["figure"] is None
    assert "No energy for this stage" in page(user_client, run, "?tab=energy")


def test_who_sampled_and_what_the_load_host_took_are_said(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    summary = run.summary
    part = {"host": "gpu-1", "machine": "gpu-box", "offset_ns": 5, "bound_ns": 180_000, "fault": None}
    summary["power"]["sampled_by"] = [part]
    summary["stages"][1]["client_energy"] = {"energy_j": 30.0, "power_w": 12.0, "mark": "modelled", "host": "load-1"}
    Run.objects.filter(pk=run.pk).update(summary=summary)
    found = page(user_client, run, "?tab=energy&stage=1")
    assert "gpu-box" in found
    assert "The load host load-1 took" in found
    assert "in no ledger" in found


def test_water_by_region_shows_the_sites_that_publish_theirs_and_marks_the_runs_own(user_client: Client) -> None:
    made = factories.benchmark(plan=PLAN)
    for name, wue in (("Hall", 1.8), ("Lake", 0.2), ("Dry", None)):
        place = Site.objects.create(slug=name.lower(), name=name)
        place.factors.create(effective_from=date(2026, 1, 1), pue=1.2, wue_l_per_kwh=wue, grid_g_per_kwh=300)
    made.deployment.site = Site.objects.get(slug="hall")
    made.deployment.save()
    run = factories.finished_run(made, PLAN)
    bars = chart(user_client, run, "water")["figure"]["data"][0]
    assert bars["y"] == ["Hall (this run)", "Lake"]
    wh = RunResults(run).stages[1].value("wh_per_query")
    assert bars["x"][0] == pytest.approx(wh / 1e3 * 1.8 * 1e3)
    assert bars["marker"]["color"][0] != bars["marker"]["color"][1]
    assert chart(user_client, run, "carbon")["figure"]["data"][0]["y"][0] == "Hall (this run)"


def test_the_break_even_of_rent_and_api_is_marked_where_the_lines_cross(user_client: Client) -> None:
    run = factories.finished_run(plan=replace(PLAN, usd_per_hour=0.05))
    found = chart(user_client, run, "cost", "stage=1&api=openai/gpt-4o")
    data = {trace["name"]: trace for trace in found["figure"]["data"]}
    mark, api = data["break-even of rent and API"], data["API price"]
    assert mark["y"][0] == pytest.approx(api["y"][0], rel=0.02)  # whole tokens a query are paid for
    assert 0 < mark["x"][0] < 1
    assert found["rows"][-1][0] == "Break-even of rent and API"


def test_a_shared_gpu_and_several_models_are_told(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(1,), requests=60))
    before = page(user_client, run)
    power = run.summary["power"]
    notes = [*power["notes"], {"code": "gpu_shared", "text": "others are served on the GPUs"}]
    models = [{"name": "a", "weight": 1}, {"name": "b", "weight": 2}]
    Run.objects.filter(pk=run.pk).update(
        summary=run.summary | {"power": power | {"notes": notes}},
        spec=run.spec | {"workload": run.spec["workload"] | {"models": models}},
    )
    after = page(user_client, run)
    for words in ("are served on the GPUs", "Requests went to 2 models: energy per query and per token is a mean"):
        assert words not in before
        assert words in after
