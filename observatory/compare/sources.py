"""Stored stages as input of a comparison: the only place of this room that reads models and files."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db.models.fields.files import FieldFile

from observatory.compare.rates import with_intervals
from observatory.compare.samples import stage_rows, stage_samples
from observatory.compare.stages import Number, StageResult
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
    spec = {name: value for name, value in run.spec.items() if name not in ("salt", "target", "version")}
    return {
        "model": run.spec.get("target", {}).get("model"),
        "url": run.spec.get("target", {}).get("url"),
        "dialect": run.spec.get("target", {}).get("dialect"),
        "engine": summary.get("target", {}).get("engine"),
        "engine_version": summary.get("target", {}).get("engine_version"),
        "deployment": run.setup,
        "load_host": summary.get("environment", {}),
        "clock": summary.get("clock"),
        "power": summary.get("power", {}).get("source"),
        "spec": spec,
    }
