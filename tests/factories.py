"""Runs in every state, filled as the instruments fill them. Needs a database; files go to MEDIA_ROOT.

    run = finished_run(plan=Plan(levels=(1, 2, 4), ttft_ms=80.0))
    run = running_run(fraction=0.4)

What a run is like (levels, lengths, times, failures, energy, price, SLO) is a ``Plan``.
"""

import hashlib
import io
import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.core.files.base import ContentFile

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs.models import Measurement, Run, Stage
from runners.metrics import DEFINITIONS_VERSION
from runners.spec import Account, Load, RunSpec, Target, Workload
from tests.simulation import (
    MONOTONIC_START_NS,
    NS,
    Plan,
    power_facts,
    power_rows,
    progress_series,
    request_rows,
    stage_summary,
)

_count = itertools.count(1)
_START = datetime(2026, 11, 12, 9, 30, tzinfo=UTC)


def benchmark(
    model: str = "smollm2-135m", name: str = "", plan: Plan | None = None, engine: str = "llama.cpp"
) -> Benchmark:
    """A benchmark on a new deployment of a new endpoint."""
    number, plan = next(_count), plan or Plan()
    endpoint = Endpoint.objects.create(name=f"endpoint {number}", url="http://127.0.0.1:8080", model=model)
    deployment = Deployment.objects.create(
        endpoint=endpoint,
        name=f"{model} on CPU {number}"[:100],
        engine=engine,
        engine_version="b6000",
        precision="q8_0",
        usd_per_hour=plan.usd_per_hour,
        price_source="rent, list price" if plan.usd_per_hour else "",
    )
    return Benchmark.objects.create(
        name=name or f"demo {number}",
        deployment=deployment,
        input_tokens=plan.input_tokens,
        output_tokens=plan.output_tokens,
        levels=list(plan.levels),
        requests=plan.requests,
        slo_ttft_ms=plan.slo.ttft_ms,
        slo_tpot_ms=plan.slo.tpot_ms,
        slo_e2e_ms=plan.slo.e2e_ms,
    )


def queued_run(of: Benchmark | None = None, plan: Plan | None = None, **fields: Any) -> Run:
    plan = plan or Plan()
    of = of or benchmark(plan=plan)
    spec = _spec(of, plan).to_json()
    deployment = of.deployment
    return Run.objects.create(
        benchmark=of,
        deployment=deployment,
        endpoint=deployment.endpoint,
        trigger=fields.pop("trigger", Run.Trigger.PAGE),
        spec=spec,
        spec_sha256=hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest(),
        setup=_snapshot(deployment),
        **fields,
    )


def running_run(of: Benchmark | None = None, plan: Plan | None = None, fraction: float = 0.4, **fields: Any) -> Run:
    """Measuring, with a second of progress per point of its series."""
    plan = plan or Plan()
    series = progress_series(plan, fraction)
    started = datetime.now(UTC) - timedelta(seconds=len(series))
    lease = datetime.now(UTC) + timedelta(seconds=60)
    return queued_run(
        of,
        plan,
        status=Run.Status.RUNNING,
        epoch=1,
        lease_owner="bench@load-1",
        lease_expires_at=lease,
        heartbeat_at=datetime.now(UTC),
        started_at=started,
        progress=series[-1],
        progress_series=series,
        **fields,
    )


def finished_run(of: Benchmark | None = None, plan: Plan | None = None, **fields: Any) -> Run:
    """Valid, with summary, stages, measurements, request rows and, unless ``plan.energy`` is empty, power samples."""
    plan = plan or Plan()
    run = queued_run(of, plan, **{"status": Run.Status.FINISHED, "valid": True, **fields})
    rows, windows = request_rows(plan)
    _keep(run, plan, rows, windows)
    return run


def invalid_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    """Finished, but its numbers may not be used: most requests failed."""
    plan = replace(plan or Plan(), levels=(4,), failures=70)
    words = "70 of 120 requests failed. Look at the failures by class, mend the server and run again."
    return finished_run(of, plan, valid=False, reason_code="too_many_failures", reason=words)


def lost_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    """The worker vanished in the second stage: rows are kept, there is no summary."""
    plan = replace(plan or Plan(), levels=(1, 2))
    run = queued_run(
        of,
        plan,
        status=Run.Status.LOST,
        epoch=1,
        lease_owner="bench@load-1",
        reason_code="lease_expired",
        reason="The worker bench@load-1 fell silent at 09:31:12 UTC. What it had written is kept.",
        started_at=_START,
        ended_at=_START + timedelta(seconds=130),
        progress_series=progress_series(plan, 0.6),
    )
    rows, _ = request_rows(plan)
    run.requests_file.save(f"{run.pk}/requests.parquet", _parquet(rows.slice(0, 170)))
    return run


def cancelled_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    """Stopped by its user in the second of two stages, which is kept as interrupted."""
    plan = replace(plan or Plan(), levels=(1, 2))
    run = finished_run(of, plan, status=Run.Status.CANCELLED, valid=False, reason_code="cancelled")
    run.stages.filter(index=1).update(verdict="interrupted", ok=40, not_sent=78, cancelled=2)
    run.reason = "Cancelled by its user. The requests that had ended are kept."
    run.save()
    return run


def failed_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    return queued_run(
        of,
        plan,
        status=Run.Status.FAILED,
        valid=False,
        epoch=1,
        reason_code="connect_refused",
        reason="Nothing listens at http://127.0.0.1:8080. Start the server, or correct the port.",
        started_at=_START,
        ended_at=_START + timedelta(seconds=2),
    )


def _keep(run: Run, plan: Plan, rows: pa.Table, windows: list[tuple[int, int]]) -> None:
    stages = [stage_summary(plan, index, rows, window) for index, window in enumerate(windows)]
    seconds = (windows[-1][1] - windows[0][0]) / NS
    run.started_at, run.ended_at = _START, _START + timedelta(seconds=seconds)
    run.definitions_version = DEFINITIONS_VERSION
    run.summary = _summary(run, plan, stages)
    run.progress_series = progress_series(plan, 1.0)
    run.requests_file.save(f"{run.pk}/requests.parquet", _parquet(rows), save=False)
    if plan.energy:
        run.power_file.save(f"{run.pk}/power.parquet", _parquet(power_rows(plan, windows)), save=False)
    run.save()
    for stage in stages:
        _store(run, stage)


def _store(run: Run, stage: dict[str, Any]) -> None:
    copied = ("index", "verdict", "reasons", "planned", "ok", "failed", "cancelled", "not_sent", "failures")
    row = Stage.objects.create(
        run=run,
        load_kind=stage["load"]["kind"],
        load_value=stage["load"]["value"],
        window_kind=stage["window"]["kind"],
        window_s=stage["window"]["seconds"],
        energy=stage["energy"],
        cost=stage["cost"],
        **{name: stage[name] for name in copied},
    )
    for metric, numbers in stage["metrics"].items():
        for statistic in ("mean", "p50", "p90", "p95", "p99", "min", "max"):
            if numbers.get(statistic) is not None:
                bounds = {"low": numbers["low"], "high": numbers["high"]} if statistic == "mean" else {}
                common = {"n": numbers["n"], "mark": numbers["mark"], "value": numbers[statistic]}
                Measurement.objects.create(run=run, stage=row, metric=metric, statistic=statistic, **common, **bounds)


def _summary(run: Run, plan: Plan, stages: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "summary_version": 1,
        "definitions_version": DEFINITIONS_VERSION,
        "runner_version": "0.1.0",
        "clock": "kernel",
        "clock_anchor": {"monotonic_ns": MONOTONIC_START_NS, "utc": _START.isoformat()},
        "started_at": _START.isoformat(),
        "ended_at": run.ended_at.isoformat() if run.ended_at else None,
        "environment": {
            "host": "load-1",
            "os": "Debian GNU/Linux 12",
            "kernel": "6.1.0",
            "cpu": "AMD EPYC 9354",
            "cpu_count": 2,
            "memory_gb": 8.0,
            "python": "3.11.7",
            "accelerators": [],
            "driver": None,
        },
        "target": {**run.spec["target"], "engine": "llama.cpp", "engine_version": "b6000"},
        "spec": run.spec,
        "valid": run.valid,
        "reasons": [] if run.valid else [{"code": run.reason_code, "text": run.reason}],
        "power": power_facts(plan),
        "stages": stages,
    }


def _spec(of: Benchmark, plan: Plan) -> RunSpec:
    endpoint = of.deployment.endpoint
    return RunSpec(
        target=Target(url=endpoint.url, model=endpoint.model),
        workload=Workload(input_tokens=plan.input_tokens, output_tokens=plan.output_tokens),
        load=Load(levels=tuple(float(level) for level in plan.levels), requests=plan.requests),
        slo=plan.slo,
        account=Account(usd_per_hour=plan.usd_per_hour, price_source="rent" if plan.usd_per_hour else ""),
        salt="a1b2c3",
    )


def _snapshot(deployment: Deployment) -> dict[str, Any]:
    return {
        "name": deployment.name,
        "engine": deployment.engine,
        "engine_version": deployment.engine_version,
        "precision": deployment.precision,
        "hardware": deployment.hardware,
        "tensor_parallel": deployment.tensor_parallel,
        "usd_per_hour": None if deployment.usd_per_hour is None else float(deployment.usd_per_hour),
    }


def _parquet(table: pa.Table) -> ContentFile:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return ContentFile(buffer.getvalue())
