"""Two to eight stages side by side: the first is the baseline; every other cell says better, worse or why not."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from observatory.compare.intervals import number_difference, percentile_difference
from observatory.compare.quality import accuracy_difference
from observatory.compare.refusals import ENERGY_METRICS, QUALITY_METRICS, Refusals, refusal_of, refusals
from observatory.compare.setups import SetupDifference, setup_differences
from observatory.compare.stages import Number, StageResult
from runners.metrics import BY_KEY, PERCENTILE_MIN_N, Better, Metric, Shape, significant

MIN_STAGES, MAX_STAGES = 2, 8

#: What is compared, in the order of a reader's questions.
COMPARED: tuple[tuple[str, str], ...] = (
    ("ttft_ms", "p50"),
    ("ttft_ms", "p99"),
    ("tpot_ms", "p50"),
    ("tpot_ms", "p99"),
    ("interactivity_tokens_per_s", "p50"),
    ("e2e_ms", "p50"),
    ("e2e_ms", "p99"),
    ("request_per_s", "mean"),
    ("output_tokens_per_s", "mean"),
    ("total_tokens_per_s", "mean"),
    ("goodput_per_s", "mean"),
    ("success_share", "mean"),
    ("power_w", "mean"),
    ("wh_per_query", "mean"),
    ("j_per_output_token", "mean"),
    ("usd_per_mtok_output", "mean"),
    ("usd_per_mtok_total", "mean"),
    ("usd_per_query", "mean"),
    ("accuracy", "mean"),
)


class Verdict(StrEnum):
    BETTER = "better"
    WORSE = "worse"
    NO_CLEAR_DIFFERENCE = "no clear difference"
    NOT_COMPARABLE = "cannot be compared"


@dataclass(frozen=True)
class Cell:
    """``delta``, its interval and ``ratio`` are against the baseline; ``reason`` says why it has no interval
    or may not decide; without one, no clear difference means that the interval includes 0.
    """

    number: Number | None
    verdict: Verdict | None = None
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    ratio: float | None = None
    reason: str = ""

    @property
    def words(self) -> str:
        """Such as "better: 12.3 % lower"."""
        if self.verdict not in (Verdict.BETTER, Verdict.WORSE) or self.delta is None:
            return str(self.verdict or "baseline")
        way = "lower" if self.delta < 0 else "higher"
        amount = "" if self.ratio is None else f"{significant(abs(self.ratio - 1) * 100)} % "
        return f"{self.verdict}: {amount}{way}"


@dataclass(frozen=True)
class Row:
    metric: Metric
    statistic: str
    cells: tuple[Cell, ...]

    @property
    def label(self) -> str:
        return self.metric.label if self.metric.shape is Shape.RATE else f"{self.metric.label} {self.statistic}"


@dataclass(frozen=True)
class Comparison:
    """``refused`` has one entry a stage (empty for the baseline): reasons by what they cover."""

    stages: tuple[StageResult, ...]
    rows: tuple[Row, ...]
    refused: tuple[Refusals, ...]
    setup: tuple[SetupDifference, ...]
    notes: tuple[str, ...]


def compare(stages: Sequence[StageResult]) -> Comparison:
    """Raises ValueError unless there are two to eight stages."""
    if not MIN_STAGES <= len(stages) <= MAX_STAGES:
        raise ValueError(f"choose {MIN_STAGES} to {MAX_STAGES} stages to compare; these are {len(stages)}")
    refused: tuple[Refusals, ...] = ({}, *(refusals(stages[0], other) for other in stages[1:]))
    rows = tuple(
        _row(BY_KEY[key], statistic, stages, refused)
        for key, statistic in COMPARED
        if any((key, statistic) in stage.numbers for stage in stages)
    )
    return Comparison(
        stages=tuple(stages),
        rows=rows,
        refused=refused,
        setup=setup_differences([stage.setup for stage in stages]),
        notes=_notes(stages, rows),
    )


def _row(metric: Metric, statistic: str, stages: Sequence[StageResult], refused: Sequence[Refusals]) -> Row:
    base = stages[0]
    cells = [Cell(base.numbers.get((metric.key, statistic)))]
    for other, reasons in zip(stages[1:], refused[1:], strict=True):
        cells.append(_cell(metric, statistic, base, other, refusal_of(metric.key, reasons)))
    return Row(metric, statistic, tuple(cells))


def _cell(metric: Metric, statistic: str, base: StageResult, other: StageResult, refusal: str) -> Cell:
    first, second = base.numbers.get((metric.key, statistic)), other.numbers.get((metric.key, statistic))
    if refusal:
        return Cell(second, Verdict.NOT_COMPARABLE, reason=refusal)
    if first is None or second is None:
        missing = base if first is None else other
        return Cell(second, Verdict.NOT_COMPARABLE, reason=_missing(missing, metric, statistic))
    interval, doubt = _interval(metric, statistic, base, other)
    low, high = interval or (None, None)
    return Cell(
        number=second,
        verdict=_verdict(metric.better, interval, doubt),
        delta=second.value - first.value,
        low=low,
        high=high,
        ratio=second.value / first.value if first.value else None,
        reason=doubt,
    )


def _missing(stage: StageResult, metric: Metric, statistic: str) -> str:
    whole = stage.numbers.get((metric.key, "mean"))
    if whole is not None and whole.n is not None and whole.n < PERCENTILE_MIN_N.get(statistic, 0):
        return (
            f"{stage.label} has too few samples for a {statistic} (n = {whole.n}, {PERCENTILE_MIN_N[statistic]} needed)"
        )
    if metric.key in ENERGY_METRICS and stage.energy_reason:
        return f"{stage.label} has no energy: {stage.energy_reason}"
    return f"{stage.label} has no {metric.label.lower() if metric.label[1:2].islower() else metric.label}"


def _interval(
    metric: Metric, statistic: str, base: StageResult, other: StageResult
) -> tuple[tuple[float, float] | None, str]:
    """The interval of the difference, and why it decides nothing (empty when it may decide)."""
    if metric.key in QUALITY_METRICS and (paired := accuracy_difference(base, other)):
        return paired, ""
    if metric.shape is Shape.RATE:
        interval = number_difference(base.numbers[metric.key, statistic], other.numbers[metric.key, statistic])
        return interval, "" if interval else "one of the two has no interval, so chance cannot be told from change"
    first, second = base.samples.get(metric.key), other.samples.get(metric.key)
    if first is None or second is None or not first.size or not second.size:
        return None, "the raw rows are not kept, so the difference has no interval"
    smaller, needed = min(first.size, second.size), PERCENTILE_MIN_N[statistic]
    doubt = f"too few samples for a {statistic} (n = {smaller}, {needed} needed)" if smaller < needed else ""
    return percentile_difference(first, second, float(statistic[1:])), doubt


def _excludes_zero(interval: tuple[float, float]) -> bool:
    return interval[0] > 0 or interval[1] < 0


def _verdict(better: Better, interval: tuple[float, float] | None, doubt: str) -> Verdict:
    if interval is None or doubt or not _excludes_zero(interval):
        return Verdict.NO_CLEAR_DIFFERENCE
    improved = (interval[0] > 0) == (better is Better.HIGHER)
    return Verdict.BETTER if improved else Verdict.WORSE


def _notes(stages: Sequence[StageResult], rows: Sequence[Row]) -> tuple[str, ...]:
    decided = sum(cell.low is not None for row in rows for cell in row.cells)
    notes = [
        "Intervals (95 %) cover the spread between the requests of these runs, not what changes from run to run. "
        "Repeat both runs before acting on a small difference. No clear difference: the interval includes 0."
    ]
    if decided > 1:
        notes.append(
            f"{decided} differences are judged here: even if nothing had changed, about "
            f"{significant(decided * 0.05, 2)} of them would look better or worse by chance."
        )
    if len({(stage.load_kind, stage.load_value) for stage in stages}) > 1:
        notes.append(f"The loads differ: {', '.join(stage.load for stage in stages)}.")
    if len({stage.setup.get("model") for stage in stages}) > 1:
        notes.append("The models differ: a token need not hold the same amount of text in both.")
    if sets := {stage.task_set for stage in stages if stage.task_set}:
        notes.append(f"Accuracy is that of the deployments on the task set {', '.join(sorted(sets))}, asked by itself.")
    if any(stage.energy_short for stage in stages):
        notes.append("A window under 30 s makes its energy a hint, not a measurement.")
    return tuple(notes)


def to_json(comparison: Comparison) -> dict[str, Any]:
    """JSON-ready; missing is null."""
    return {
        "baseline": comparison.stages[0].label,
        "stages": [
            {"label": stage.label, "run": stage.run_id, "stage": stage.stage_index, "load": stage.load}
            for stage in comparison.stages
        ],
        "refused": [dict(reasons) for reasons in comparison.refused],
        "rows": flat_rows(comparison),
        "setup": [{"name": difference.name, "values": list(difference.values)} for difference in comparison.setup],
        "notes": list(comparison.notes),
    }


def flat_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per metric and stage, the same columns in each: for CSV and JSON."""
    return [
        {
            "metric": row.metric.key,
            "statistic": row.statistic,
            "unit": row.metric.unit,
            "run": stage.run_id,
            "stage": stage.stage_index,
            "label": stage.label,
            "load": stage.load,
            "value": None if cell.number is None else cell.number.value,
            "value_low": None if cell.number is None else cell.number.low,
            "value_high": None if cell.number is None else cell.number.high,
            "n": None if cell.number is None else cell.number.n,
            "mark": None if cell.number is None else cell.number.mark,
            "delta": cell.delta,
            "delta_low": cell.low,
            "delta_high": cell.high,
            "ratio": cell.ratio,
            "verdict": "baseline" if cell.verdict is None else cell.verdict.value,
            "reason": cell.reason,
        }
        for row in comparison.rows
        for stage, cell in zip(comparison.stages, row.cells, strict=True)
    ]
