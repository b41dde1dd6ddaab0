"""The energy of single requests and of their tokens, as the run's pages tell it."""

from statistics import median

import pytest
from django.test import Client

from observatory.pages.request_rows import page as request_rows_page
from observatory.pages.results import RunResults
from observatory.pages.run_energy import fit
from observatory.runs.models import Run
from runners.load.energy_use import requests_j
from tests import factories
from tests.pages_results.test_run import page
from tests.simulation import Plan

pytestmark = pytest.mark.django_db
PLAN = Plan(levels=(1, 2, 4), requests=120, output_tokens=32)


def test_the_median_of_the_requests_is_that_of_the_stage(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    results = RunResults(run)
    stage, told = results.stages[0], results.summary["stages"][0]
    rows = results.rows.filter(results.rows["stage"].to_numpy() == 0)
    joules = requests_j(rows, told, results.summary["attribution"])
    window = told["window"]
    for row, found in zip(rows.to_pylist(), joules, strict=True):
        whole = row["sent_ns"] >= window["start_ns"] and row["end_ns"] <= window["end_ns"]
        assert (found is not None) == whole
    good = [
        j for j, row in zip(joules, rows.to_pylist(), strict=True) if j and row["outcome"] == "ok" and not row["warmup"]
    ]
    assert median(good) / 3600 == pytest.approx(stage.value("wh_per_query_median"))
    listed = request_rows_page(results.rows, 0, {}, results.summary).rows
    assert [row["energy_j"] for row in listed] == joules[: len(listed)]


def test_without_a_fit_or_energy_the_requests_have_none(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(1,), requests=60, energy=""))
    results = RunResults(run)
    assert {row["energy_j"] for row in request_rows_page(results.rows, 0, {}, results.summary).rows} == {None}
    assert fit(results) is None


def test_the_energy_tab_tells_what_tokens_took_with_intervals(user_client: Client) -> None:
    run = factories.finished_run(plan=PLAN)
    told = {
        "idle_w": 100.0, "idle_measured": True, "r_squared": 0.98765, "slices": 31, "note": "",
        "terms": [
            {"of": "prefill", "joules": 0.5, "low": 0.4, "high": 0.6},
            {"of": "decode", "joules": 2.5, "low": 2.25, "high": 2.75},
        ],
    }  # fmt: skip
    Run.objects.filter(pk=run.pk).update(summary=run.summary | {"attribution": told})
    found = page(user_client, run, "?tab=energy")
    assert "A prompt token, not cached" in found
    assert "2.25 to 2.75 J/tok" in found
    assert "31 slices of all stages, R² 0.988" in found
    Run.objects.filter(pk=run.pk).update(summary=run.summary | {"attribution": None})
    assert "too even, to tell what its tokens took" in page(user_client, run, "?tab=energy")
