from pathlib import Path

import numpy as np
import pytest
from django.conf import LazySettings

from observatory.compare.comparison import Verdict, compare
from observatory.compare.samples import event_gaps_ms, good_rows, stage_samples
from observatory.compare.sources import read_rows, stage_result
from runners.load.records import SCHEMA
from tests.factories import finished_run
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
    assert [row.name for row in found.setup] == ["deployment.name"]


def test_failures_and_warm_up_stay_out_of_the_samples() -> None:
    rows, _ = request_rows(Plan(levels=(1, 2), requests=20, failures=5))
    warm = rows.set_column(2, "warmup", [[index < 3 for index in range(rows.num_rows)]])
    assert stage_samples(warm, 0)["ttft_ms"].size == 12
    assert stage_samples(warm, 1)["ttft_ms"].size == 15


def test_gaps_never_span_two_requests() -> None:
    rows = good_rows(request_rows(Plan(levels=(1,), requests=3, output_tokens=5))[0], 0)
    expected = np.concatenate([np.diff(offsets) for offsets in rows["event_offsets_ns"].to_pylist()]) / 1e6
    assert event_gaps_ms(rows) == pytest.approx(expected)


def test_rows_without_any_event_give_empty_samples() -> None:
    assert {values.size for values in stage_samples(SCHEMA.empty_table(), 0).values()} == {0}


def test_an_answer_of_one_token_has_no_time_per_output_token() -> None:
    rows, _ = request_rows(Plan(levels=(1,), requests=4, output_tokens=1))
    samples = stage_samples(rows, 0)
    assert (samples["tpot_ms"].size, samples["ttft_ms"].size) == (0, 4)
