import csv
import io

import pytest

from observatory.compare.comparison import compare, flat_rows
from observatory.compare.sources import read_rows, stage_result
from observatory.reports import comparisons, results
from observatory.reports.sheets import Sheet
from observatory.runs.models import Measurement, Run
from runners.metrics import METRICS, Shape
from tests.factories import benchmark, failed_run, finished_run
from tests.simulation import Plan

pytestmark = pytest.mark.django_db

SMALL = Plan(levels=(1, 2), requests=60)


def table(sheet: Sheet) -> list[dict[str, str]]:
    text = sheet.text()
    rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    assert text.split("\r\n", 1)[0].split(",") == list(sheet.header)
    return rows


def test_the_header_is_fixed_by_the_table_of_metrics_and_names_every_unit() -> None:
    assert len(set(results.WIDE_COLUMNS)) == len(results.WIDE_COLUMNS)
    for metric in METRICS:
        columns = results.metric_columns(metric)
        assert f"{metric.key} mean [{metric.unit}]" in columns
        assert (f"{metric.key} p99 [{metric.unit}]" in columns) == (metric.shape is Shape.DISTRIBUTION)
    assert table(results.wide(Run.objects.all())) == []


def test_a_wide_sheet_has_a_row_per_stage_with_every_measurement_under_its_own_name() -> None:
    run = finished_run(plan=SMALL)
    rows = table(results.wide(Run.objects.all()))
    assert [(row["run"], row["stage"], row["load_value"]) for row in rows] == [
        (str(run.pk), "0", "1.0"),
        (str(run.pk), "1", "2.0"),
    ]
    for stored in run.measurements.select_related("stage"):
        row, metric = rows[stored.stage.index], next(m for m in METRICS if m.key == stored.metric)
        assert float(row[f"{stored.metric} {stored.statistic} [{metric.unit}]"]) == stored.value
        assert (row[f"{stored.metric} n"], row[f"{stored.metric} mark"]) == (str(stored.n), stored.mark)
    assert rows[0]["ttft_ms p99 [ms]"] == ""  # too few requests for it


def test_a_run_without_stages_has_one_row_with_empty_results() -> None:
    failed_run()
    [row] = table(results.wide(Run.objects.all()))
    assert (row["status"], row["valid"], row["reason_code"]) == ("failed", "false", "connect_refused")
    assert {row[name] for name in results.WIDE_COLUMNS if name not in results.RUN_COLUMNS} == {""}


def test_a_list_of_runs_costs_few_queries(django_assert_max_num_queries: object) -> None:
    of = benchmark(plan=SMALL)
    for _ in range(4):
        finished_run(of, plan=SMALL)
    with django_assert_max_num_queries(4):  # type: ignore[operator]
        assert len(table(results.wide(Run.objects.all()))) == 8


def test_a_long_sheet_has_a_row_per_measurement_in_the_order_of_the_table_of_metrics() -> None:
    run = finished_run(plan=SMALL)
    rows = table(results.long(run))
    assert len(rows) == run.measurements.count()
    assert [row["stage"] for row in rows] == sorted(row["stage"] for row in rows)
    first = [row["metric"] for row in rows if row["stage"] == "0"]
    order = [metric.key for metric in METRICS]
    assert first == sorted(first, key=order.index)
    assert {row["unit"] for row in rows if row["metric"] == "ttft_ms"} == {"ms"}


def test_a_metric_of_an_older_definition_stays_in_the_long_sheet_only() -> None:
    run = finished_run(plan=SMALL)
    stage = run.stages.first()
    Measurement.objects.create(run=run, stage=stage, metric="old_ms", statistic="mean", value=1, mark="measured")
    assert [row["value"] for row in table(results.long(run)) if row["metric"] == "old_ms"] == ["1.0"]
    assert len(table(results.wide(Run.objects.all()))) == 2


@pytest.mark.parametrize(
    "name", ["=cmd|'/c calc'!A1", "@SUM(1)", '<img src=x onerror="x">', "a,b\n=c", "%{x}", "a\u202eb"]
)
def test_a_hostile_model_name_stays_text_in_its_own_cell(name: str) -> None:
    run = finished_run(benchmark(model=name, name=name[::-1]), plan=SMALL)
    shown = f"'{name}" if name[0] in "=@" else name
    assert {row["model"] for row in table(results.wide(Run.objects.all()))} == {shown}
    assert len(table(results.long(run))) == run.measurements.count()


def test_a_comparison_has_a_row_per_metric_and_stage() -> None:
    runs = [finished_run(plan=Plan(levels=(1,), ttft_ms=ttft)) for ttft in (90, 30)]
    compared = compare([stage_result(run.stages.get(), str(run), read_rows(run.requests_file)) for run in runs])
    rows = table(comparisons.sheet(compared))
    assert len(rows) == len(flat_rows(compared))
    baseline, other = (row for row in rows if (row["metric"], row["statistic"]) == ("ttft_ms", "p50"))
    assert (baseline["verdict"], baseline["delta"], other["verdict"]) == ("baseline", "", "better")
    assert float(other["delta"]) == pytest.approx(float(other["value"]) - float(baseline["value"]))
