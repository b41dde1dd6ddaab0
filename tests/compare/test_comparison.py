import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from observatory.compare.comparison import Cell, Comparison, Verdict, compare, flat_rows, to_json
from observatory.compare.refusals import Part
from observatory.compare.stages import Number, StageResult

Make = Callable[..., StageResult]


def cell(comparison: Comparison, metric: str, statistic: str = "mean", column: int = 1) -> Cell:
    row = next(row for row in comparison.rows if (row.metric.key, row.statistic) == (metric, statistic))
    return row.cells[column]


def test_the_first_stage_is_the_baseline_and_carries_no_verdict(stage: Make) -> None:
    found = compare([stage(1), stage(2)])
    assert cell(found, "ttft_ms", "p50", 0).words == "baseline"
    assert cell(found, "ttft_ms", "p50", 0).number == stage(1).numbers["ttft_ms", "p50"]


def test_a_slower_run_is_worse_in_latency_and_in_throughput(stage: Make) -> None:
    found = compare([stage(1), stage(2, scale=1.3)])
    assert cell(found, "ttft_ms", "p50").verdict is Verdict.WORSE
    assert cell(found, "output_tokens_per_s").verdict is Verdict.WORSE
    assert cell(found, "output_tokens_per_s").words == "worse: 23.1 % lower"


def test_a_faster_run_is_better_by_the_ratio_of_the_two(stage: Make) -> None:
    found = cell(compare([stage(1), stage(1, scale=0.5)]), "ttft_ms", "p50")
    assert found.verdict is Verdict.BETTER
    assert found.ratio == pytest.approx(0.5)
    assert found.words == "better: 50.0 % lower"
    assert found.low is not None
    assert found.high is not None
    assert found.delta is not None
    assert found.low < found.delta < found.high < 0


def test_two_runs_of_the_same_kind_show_no_clear_difference(stage: Make) -> None:
    found = cell(compare([stage(1), stage(2)]), "ttft_ms", "p50")
    assert found.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert found.reason == ""
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0 < found.high


def test_too_few_samples_never_decide_however_large_the_difference(stage: Make) -> None:
    found = cell(compare([stage(1, n=5), stage(2, n=5, scale=9)]), "ttft_ms", "p50")
    assert found.verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert found.reason == "too few samples for a p50 (n = 5, 7 needed)"


def test_a_percentile_that_a_run_is_too_small_for_says_how_many_are_needed(stage: Make) -> None:
    found = cell(compare([stage(1), stage(2, n=100)]), "ttft_ms", "p99")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "run 2 has too few samples for a p99 (n = 100, 459 needed)"


def test_a_difference_without_an_interval_decides_nothing(stage: Make) -> None:
    found = compare([stage(1), stage(2, scale=2, samples={})])
    assert cell(found, "ttft_ms", "p50").verdict is Verdict.NO_CLEAR_DIFFERENCE
    assert "raw rows are not kept" in cell(found, "ttft_ms", "p50").reason


def test_a_metric_that_one_run_lacks_is_named(stage: Make) -> None:
    other = stage(2)
    numbers = {key: number for key, number in other.numbers.items() if key[0] != "wh_per_query"}
    found = cell(compare([stage(1), replace(other, numbers=numbers)]), "wh_per_query")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == "run 2 has no energy per query"


def test_a_run_whose_server_was_not_measured_says_so_in_the_place_of_its_energy(stage: Make) -> None:
    why = "the energy of the server was not measured: http://gpu-1 is not on this machine"
    other = stage(2, energy_boundary=None, energy_mark=None, energy_reason=why)
    numbers = {key: number for key, number in other.numbers.items() if key[0] != "wh_per_query"}
    found = cell(compare([stage(1), replace(other, numbers=numbers)]), "wh_per_query")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason == f"run 2 has no energy: {why}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_tokens": 512}, "asked for 128 input tokens a request, run 2 for 512"),
        ({"output_tokens": 32}, "asked for 64 output tokens a request, run 2 for 32"),
        ({"definitions_version": 2}, "Run the older one again"),
        ({"verdict": "client_limited"}, "limited by the load machine"),
        ({"verdict": "interrupted"}, "did not end well (interrupted)"),
        ({"run_valid": False, "run_reason": "All requests failed."}, "not a valid run: All requests failed"),
        ({"run_valid": None}, "not a valid run"),
    ],
)
def test_stages_of_different_kinds_are_refused_with_the_reason(
    stage: Make, changes: dict[str, object], words: str
) -> None:
    found = compare([stage(1), stage(2, **changes)])
    assert words in found.refused[1][Part.ALL]
    assert {row.cells[1].verdict for row in found.rows} == {Verdict.NOT_COMPARABLE}
    assert cell(found, "ttft_ms", "p50").delta is None


def test_answers_that_came_out_longer_are_refused_even_when_the_same_was_asked(stage: Make) -> None:
    other = stage(2)
    numbers = {**other.numbers, ("output_tokens", "mean"): Number(48, n=500)}
    reason = compare([stage(1), replace(other, numbers=numbers)]).refused[1][Part.ALL]
    assert "64 output tokens a request on average, run 2 48" in reason


@pytest.mark.parametrize(
    ("changes", "metric", "words"),
    [
        ({"energy_boundary": "accelerator"}, "wh_per_query", "counts accelerator+cpu, run 2 accelerator"),
        ({"energy_boundary": "accelerator"}, "wh_per_query", "or read the narrow figures on the two Energy tabs"),
        ({"energy_boundary": "cpu"}, "wh_per_query", "Measure both with the same power source."),
        ({"energy_shared": True}, "wh_per_query", "the energy of run 2 is that of a whole board that serves others"),
        ({"energy_mark": "modelled"}, "wh_per_query", "run 1 is measured, that of run 2 modelled"),
        ({"price_basis": "electricity"}, "usd_per_mtok_output", "run 1 is rent, run 2 electricity"),
        ({"slo": {"ttft_ms": 900.0}}, "goodput_per_s", "TTFT 500 ms and TTFT 900 ms"),
    ],
)
def test_one_difference_of_kind_refuses_only_its_own_metrics(
    stage: Make, changes: dict[str, object], metric: str, words: str
) -> None:
    found = compare([stage(1), stage(2, scale=1.3, **changes)])
    assert cell(found, metric).verdict is Verdict.NOT_COMPARABLE
    assert words in cell(found, metric).reason
    assert cell(found, "ttft_ms", "p50").verdict is Verdict.WORSE


def test_the_note_says_how_many_would_differ_by_chance(stage: Make) -> None:
    notes = " ".join(compare([stage(1), stage(2)]).notes)
    assert "8 differences are judged here" in notes
    assert "about 0.40 of them" in notes


def test_different_loads_and_models_are_said(stage: Make) -> None:
    notes = " ".join(compare([stage(1), stage(2, load_value=8.0, setup={"model": "other"})]).notes)
    assert "concurrency 4, concurrency 8" in notes
    assert "The models differ" in notes


@pytest.mark.parametrize("count", [1, 9])
def test_fewer_than_two_or_more_than_eight_stages_are_refused(stage: Make, count: int) -> None:
    with pytest.raises(ValueError, match="choose 2 to 8 stages"):
        compare([stage(seed) for seed in range(count)])


def test_the_twin_is_json_without_nan_and_each_row_has_the_same_columns(stage: Make) -> None:
    found = compare([stage(1), stage(2, n=5), stage(3, verdict="failed")])
    json.dumps(to_json(found), allow_nan=False)
    assert len({tuple(row) for row in flat_rows(found)}) == 1
    assert len(flat_rows(found)) == 3 * len(found.rows)
