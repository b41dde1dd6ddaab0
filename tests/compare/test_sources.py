from pathlib import Path

import numpy as np
import pytest
from django.conf import LazySettings

from observatory.compare.comparison import Verdict, compare
from observatory.compare.samples import stage_rows, stage_samples
from observatory.compare.sources import read_rows, stage_result
from runners.load.records import SCHEMA
from tests.factories import finished_run, lost_run
from tests.simulation import Plan, request_rows

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _media(settings: LazySettings, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


def test_stored_runs_are_compared_from_their_raw_rows() -> None:
    plan = Plan(levels=(2,), requests=100)
    runs = [finished_run(plan=plan), finished_run(plan=Plan(levels=(2,), requests=100, ttft_ms=90, seed=1))]
    stages = [stage_result(run.stages.get(), f"run {run.pk}", read_rows(run.requests_file)) for run in runs]
    found = compare(stages)
    ttft = next(row for row in found.rows if row.label == "TTFT p50").cells[1]
    assert ttft.verdict is Verdict.WORSE
    assert ttft.number is not None
    assert ttft.number.value == pytest.approx(np.percentile(stages[1].samples["ttft_ms"], 50))
    assert [row.name for row in found.setup] == [
        "deployment.benchmark",
        "deployment.deployment",
        "deployment.endpoint.name",
    ]


def test_failures_and_warm_up_stay_out_of_the_samples() -> None:
    rows, _ = request_rows(Plan(levels=(1, 2), requests=20, failures=5))
    warm = rows.set_column(
        rows.schema.get_field_index("warmup"), "warmup", [[index < 3 for index in range(rows.num_rows)]]
    )
    assert stage_samples(stage_rows(warm, 0))["ttft_ms"].size == 12
    assert stage_samples(stage_rows(warm, 1))["ttft_ms"].size == 15


def test_rows_without_any_event_give_empty_samples() -> None:
    assert {values.size for values in stage_samples(stage_rows(SCHEMA.empty_table(), 0)).values()} == {0}


def test_another_failed_stage_does_not_spoil_a_sound_one_but_a_lost_run_does() -> None:
    run = finished_run(plan=Plan(levels=(1, 2), requests=30, client_limited=(2,)))
    assert run.valid is False
    assert stage_result(run.stages.get(index=0), "a").run_valid is True
    assert stage_result(run.stages.get(index=1), "a").verdict == "client_limited"
    assert stage_result(lost_run().stages.get(index=0), "a").run_valid is False


def test_a_run_without_its_raw_file_still_has_its_numbers() -> None:
    run = finished_run(plan=Plan(levels=(1,), requests=30))
    run.requests_file.storage.delete(run.requests_file.name)
    assert read_rows(run.requests_file) is None
    assert ("ttft_ms", "p50") in stage_result(run.stages.get(), "a").numbers


def test_a_stage_without_energy_knows_why() -> None:
    run = finished_run(plan=Plan(levels=(2,), requests=50, energy=""))
    stage = stage_result(run.stages.get(), "run")
    assert stage.energy_boundary is None
    assert stage.energy_reason.startswith("No power source was found")
    assert stage_result(finished_run(plan=Plan(levels=(2,), requests=100)).stages.get(), "run").energy_reason == ""
