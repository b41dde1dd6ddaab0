"""The columns of numbers that a list of runs can show, and the stage that they are taken from.

All numbers of a run come from one stage, its peak: of the stages that the client did not limit, the one with the
highest output throughput. So a row never puts the latency of one load beside the throughput of another.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Case, OuterRef, Prefetch, QuerySet, Subquery, Value, When

from observatory.runs.models import Measurement, Run
from runners.metrics import METRICS, Metric, Shape


@dataclass(frozen=True)
class Column:
    """One statistic of one metric. ``key`` is its name in URLs, data and queries: "ttft_ms_p50", "power_w"."""

    metric: Metric
    statistic: str

    @property
    def key(self) -> str:
        many = self.metric.shape is Shape.DISTRIBUTION
        return f"{self.metric.key}_{self.statistic}" if many else self.metric.key

    @property
    def label(self) -> str:
        return f"{self.metric.label} {self.statistic}" if self.metric.shape is Shape.DISTRIBUTION else self.metric.label


def _columns(metric: Metric) -> tuple[Column, ...]:
    statistics = ("p50", "p90", "p99", "mean") if metric.shape is Shape.DISTRIBUTION else ("mean",)
    return tuple(Column(metric, statistic) for statistic in statistics)


COLUMNS: dict[str, Column] = {column.key: column for metric in METRICS for column in _columns(metric)}

DEFAULT = tuple(
    COLUMNS[key]
    for key in (
        "ttft_ms_p50",
        "ttft_ms_p99",
        "tpot_ms_p50",
        "output_tokens_per_s",
        "wh_per_query",
        "usd_per_mtok_output",
    )
)


def chosen(keys: Iterable[str]) -> tuple[Column, ...]:
    """The columns of those keys; the default ones when none of them is known."""
    return tuple(COLUMNS[key] for key in dict.fromkeys(keys) if key in COLUMNS) or DEFAULT


def with_peak(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Each run with ``peak``, the id of its peak stage, and that stage's load: ``peak_kind`` and ``peak_value``."""
    by_throughput = Measurement.objects.filter(
        run=OuterRef("pk"), metric="output_tokens_per_s", statistic="mean"
    ).order_by(Case(When(stage__verdict="ok", then=Value(0)), default=Value(1)), "-value", "stage__index")
    return runs.annotate(
        peak=Subquery(by_throughput.values("stage_id")[:1]),
        peak_kind=Subquery(by_throughput.values("stage__load_kind")[:1]),
        peak_value=Subquery(by_throughput.values("stage__load_value")[:1]),
        peak_verdict=Subquery(by_throughput.values("stage__verdict")[:1]),
    )


def with_value(runs: QuerySet[Run], column: Column) -> QuerySet[Run]:
    """Each run (with its peak) with the column's number, under the column's key: for sorting in the database."""
    of_peak = Measurement.objects.filter(
        stage=OuterRef("peak"), metric=column.metric.key, statistic=column.statistic
    ).values("value")[:1]
    return runs.annotate(**{column.key: Subquery(of_peak)})


def with_numbers(runs: QuerySet[Run], columns: Iterable[Column]) -> QuerySet[Run]:
    """Each run (with its peak) with the measurements behind the columns: one query for all of them."""
    keys = {column.metric.key for column in columns}
    wanted = Measurement.objects.filter(metric__in=keys).exclude(statistic__in=("min", "max"))
    return runs.prefetch_related(Prefetch("measurements", queryset=wanted, to_attr="shown"))


def number(run: Run, column: Column) -> Measurement | None:
    """The run's number for the column, from its peak stage; the run must come from ``with_numbers``."""
    shown: list[Measurement] = getattr(run, "shown", [])
    return next(
        (
            item
            for item in shown
            if item.stage_id == getattr(run, "peak", None)
            and item.metric == column.metric.key
            and item.statistic == column.statistic
        ),
        None,
    )
