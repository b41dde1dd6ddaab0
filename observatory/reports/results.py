"""Runs as sheets: wide (a row per stage, a column per metric and statistic) and long (a row per measurement)."""

from collections.abc import Iterable, Iterator
from typing import Any

from django.db.models import QuerySet

from observatory.reports.sheets import Cells, Sheet
from observatory.runs.models import Measurement, Run, Stage
from runners.metrics import BY_KEY, METRICS, STATISTICS, Metric, Shape

RUN_COLUMNS = (
    "run",
    "benchmark",
    "deployment",
    "endpoint",
    "model",
    "engine",
    "engine_version",
    "precision",
    "hardware",
    "status",
    "valid",
    "reason_code",
    "trigger",
    "queued_at",
    "started_at",
    "ended_at",
    "definitions_version",
)
STAGE_COLUMNS = (
    "stage",
    "load_kind",
    "load_value",
    "verdict",
    "planned",
    "ok",
    "failed",
    "cancelled",
    "not_sent",
    "window_kind",
    "window_s",
)
LONG_COLUMNS = (
    "run",
    "stage",
    "load_kind",
    "load_value",
    "verdict",
    "metric",
    "label",
    "unit",
    "statistic",
    "value",
    "low",
    "high",
    "n",
    "mark",
)
_CHUNK = 200


def _column(metric: Metric, statistic: str) -> str:
    return f"{metric.key} {statistic} [{metric.unit}]"


def metric_columns(metric: Metric) -> tuple[str, ...]:
    """Such as ``ttft_ms p50 [ms]``: the mean with its interval, the percentiles of a distribution, n and mark."""
    statistics = STATISTICS if metric.shape is Shape.DISTRIBUTION else ("mean",)
    numbers = (*statistics[:1], "low", "high", *statistics[1:])
    return (
        *(_column(metric, statistic) for statistic in numbers),
        f"{metric.key} n",
        f"{metric.key} mark",
    )


WIDE_COLUMNS = (*RUN_COLUMNS, *STAGE_COLUMNS, *(name for metric in METRICS for name in metric_columns(metric)))


def wide(runs: QuerySet[Run]) -> Sheet:
    """A row per stage of each run; a run without stages has one row."""
    full = runs.select_related("benchmark", "deployment", "endpoint").prefetch_related("stages__measurements")
    return Sheet(WIDE_COLUMNS, (row for run in full.iterator(chunk_size=_CHUNK) for row in _run_rows(run)))


def long(run: Run) -> Sheet:
    """A row per measurement of the run, in the order of stages and of the table of metrics."""
    order = {metric.key: place for place, metric in enumerate(METRICS)}
    found = run.measurements.select_related("stage")
    measurements = sorted(found, key=lambda m: (m.stage.index, order.get(m.metric, len(order)), m.metric, m.pk))
    return Sheet(LONG_COLUMNS, (_long_row(measurement) for measurement in measurements))


def _run_rows(run: Run) -> Iterator[Cells]:
    of_run = _run_cells(run)
    stages = list(run.stages.all())
    for stage in stages:
        yield {**of_run, **_stage_cells(stage), **_metric_cells(stage.measurements.all())}
    if not stages:
        yield of_run


def _run_cells(run: Run) -> Cells:
    setup: dict[str, Any] = run.setup
    own = {name: getattr(run, name) for name in RUN_COLUMNS if hasattr(run, name)}
    return {
        **own,
        "run": run.pk,
        "benchmark": run.asks,
        "deployment": run.deployment.name,
        "endpoint": run.endpoint.name,
        "model": run.spec.get("target", {}).get("model"),
        **{name: setup.get(name) for name in ("engine", "engine_version", "precision", "hardware")},
    }


def _stage_cells(stage: Stage) -> Cells:
    return {"stage": stage.index, **{name: getattr(stage, name) for name in STAGE_COLUMNS[1:]}}


def _metric_cells(measurements: Iterable[Measurement]) -> Cells:
    cells: dict[str, Any] = {}
    for measurement in measurements:
        metric = BY_KEY.get(measurement.metric)
        if metric is None:  # of an older definition: only the long sheet has it
            continue
        cells[_column(metric, measurement.statistic)] = measurement.value
        if measurement.statistic == "mean":
            cells[_column(metric, "low")] = measurement.low
            cells[_column(metric, "high")] = measurement.high
            cells[f"{metric.key} n"] = measurement.n
            cells[f"{metric.key} mark"] = measurement.mark
    return {name: cells[name] for name in cells.keys() & _KNOWN}


_KNOWN = frozenset(WIDE_COLUMNS)


def _long_row(measurement: Measurement) -> Cells:
    metric, stage = BY_KEY.get(measurement.metric), measurement.stage
    return {
        "run": measurement.run_id,
        "stage": stage.index,
        "load_kind": stage.load_kind,
        "load_value": stage.load_value,
        "verdict": stage.verdict,
        "metric": measurement.metric,
        "label": metric.label if metric else None,
        "unit": metric.unit if metric else None,
        **{name: getattr(measurement, name) for name in ("statistic", "value", "low", "high", "n", "mark")},
    }
