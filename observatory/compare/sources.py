"""Stored stages as input of a comparison: the only place of this room that reads models and files."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models.fields.files import FieldFile

from observatory.compare.quality import best_covered, number
from observatory.compare.rates import with_intervals
from observatory.compare.samples import stage_rows, stage_samples
from observatory.compare.stages import FloatArray, Number, StageResult
from observatory.quality.evaluations import answers
from observatory.quality.models import QualityResult
from observatory.runs.models import Run, Stage
from runners.load.rows import StageRows
from runners.sources import Length, length_option
from runners.strict_json import build


def read_rows(file: FieldFile, columns: list[str] | None = None) -> pa.Table | None:
    """The rows of a stored Parquet file; None when none is kept or it cannot be read."""
    if not file:
        return None
    try:
        with file.open("rb") as source:
            return pq.read_table(source, columns=columns)
    except (OSError, pa.ArrowException):
        return None


def stage_numbers(stage: Stage, rows: StageRows | None) -> dict[tuple[str, str], Number]:
    """All stored statistics by (metric, statistic); rates get an interval from the raw rows."""
    stored = {(m.metric, m.statistic): Number(m.value, m.low, m.high, m.n, m.mark) for m in stage.measurements.all()}
    return with_intervals(stored, rows, _window(stage), slo_bounds(stage.run))


def slo_bounds(run: Run) -> dict[str, float]:
    """The bounds that were asked for, by metric."""
    return {metric: bound for metric, bound in run.spec.get("slo", {}).items() if bound is not None}


def _window(stage: Stage) -> Mapping[str, Any] | None:
    """The window's stamps, which only the summary keeps."""
    stages: list[Mapping[str, Any]] = (stage.run.summary or {}).get("stages", [])
    return next((part.get("window") for part in stages if part.get("index") == stage.index), None)


def numbers_are_valid(run: Run) -> bool:
    """Whether a sound stage of the run may be used: a finished run is not spoilt by another of its stages."""
    if run.valid or run.status != Run.Status.FINISHED:
        return bool(run.valid)
    reasons = (run.summary or {}).get("reasons") or [{}]
    return all(str(reason.get("code", "")).startswith("stage_") for reason in reasons)


def stage_result(stage: Stage, label: str, rows: pa.Table | None = None) -> StageResult:
    """``rows`` are the run's raw request rows; without them percentiles have no interval of the difference."""
    run = stage.run
    own = None if rows is None else stage_rows(rows, stage.index)
    workload: Mapping[str, Any] = run.spec.get("workload", {})
    energy: Mapping[str, Any] = stage.energy or {}
    power: Mapping[str, Any] = (run.summary or {}).get("power") or {}
    return StageResult(
        label=label,
        run_id=run.pk,
        stage_index=stage.index,
        load_kind=stage.load_kind,
        load_value=stage.load_value,
        run_valid=numbers_are_valid(run),
        run_reason=run.reason,
        verdict=stage.verdict,
        definitions_version=run.definitions_version,
        input_tokens=_asked(
            int(stage.load_value) if stage.load_kind == "input_tokens" else workload.get("input_tokens")
        ),
        output_tokens=_asked(workload.get("output_tokens")),
        work=workload.get("source", {}).get("kind", "synthetic"),
        slo=slo_bounds(run),
        energy_boundary=energy.get("boundary"),
        energy_mark=energy.get("mark"),
        energy_short=bool(energy.get("short")),
        energy_shared=any(device.get("shared") for device in power.get("devices") or []),
        energy_reason=_why_no_energy(energy, power),
        price_basis=(stage.cost or {}).get("basis"),
        numbers=stage_numbers(stage, own),
        samples={} if own is None else stage_samples(own),
        setup=run_setup(run),
    )


def _why_no_energy(energy: Mapping[str, Any], power: Mapping[str, Any]) -> str:
    """Empty where there is a figure, or nothing is known."""
    if energy.get("it_j") is not None:
        return ""
    reasons: list[Mapping[str, Any]] = energy.get("reasons") or power.get("notes") or []
    return str(reasons[0]["text"]) if reasons else ""


def _asked(tokens: Any) -> int | str | None:
    """A fixed length, or what a varying one is drawn from, in words."""
    return length_option(build(Length, tokens, "tokens")) if isinstance(tokens, dict) else tokens


def run_setup(run: Run) -> dict[str, Any]:
    """What decides a run's numbers: the deployment as it was, the specification and the load machine."""
    summary: Mapping[str, Any] = run.summary or {}
    load_host = {name: value for name, value in summary.get("environment", {}).items() if name != "engine"}
    spec = {name: value for name, value in run.spec.items() if name not in ("salt", "target", "version")}
    return {
        "model": run.spec.get("target", {}).get("model"),
        "url": run.spec.get("target", {}).get("url"),
        "dialect": run.spec.get("target", {}).get("dialect"),
        "engine": summary.get("target", {}).get("engine"),
        "engine_version": summary.get("target", {}).get("engine_version"),
        "deployment": run.setup,
        "load_host": load_host,
        "clock": summary.get("clock"),
        "power": summary.get("power", {}).get("source"),
        "spec": spec,
    }


# quality


def with_quality(results: Sequence[StageResult], runs: Sequence[Run]) -> list[StageResult]:
    """``results`` with the accuracy of their deployments, all on one task set: the one that most of them were asked."""
    known = [_evaluations(run) for run in runs]
    chosen = best_covered([{key: found.pk for key, found in of_run.items()} for of_run in known])
    return [
        _joined(result, of_run[chosen]) if chosen in of_run else result
        for result, of_run in zip(results, known, strict=True)
    ]


def _evaluations(run: Run) -> dict[str, QualityResult]:
    """By task set: the one beside the run, else the newest of its deployment."""
    found: dict[str, QualityResult] = {}
    stored = QualityResult.objects.known().filter(deployment=run.deployment_id).select_related("job").order_by("pk")
    for result in sorted(stored, key=lambda one: (one.beside_id == run.pk, one.pk)):
        found[result.tasks_sha256] = result
    return found


def _joined(result: StageResult, quality: QualityResult) -> StageResult:
    assert quality.value is not None  # noqa: S101
    accuracy = number(quality.value, quality.low, quality.high, quality.n)
    correct = correctness(quality)
    samples = {} if correct is None else {"accuracy": correct}
    return replace(
        result,
        numbers={**result.numbers, ("accuracy", "mean"): accuracy},
        samples={**result.samples, **samples},
        task_set=quality.task_set,
    )


def correctness(quality: QualityResult) -> FloatArray | None:
    """1 right, 0 wrong, NaN unanswered, in the order of the tasks; None where the answers are not kept."""
    table = answers(quality)
    if table is None:
        return None
    said = table.column("correct").to_pylist()
    return np.array([np.nan if one is None else float(one) for one in said])
