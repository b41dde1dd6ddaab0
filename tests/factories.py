"""Runs in every state, filled as the instruments fill them. Needs a database; files go to MEDIA_ROOT.

    run = finished_run(plan=Plan(levels=(1, 2, 4), ttft_ms=80.0))
    run = running_run(fraction=0.4)

What a run is like (levels, lengths, times, failures, energy, price, SLO) is a ``Plan``.
"""

import io
import itertools
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.core.files.base import ContentFile
from django.db.models import Model

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.catalog.seed import TABLES, seed
from observatory.quality import evaluations
from observatory.quality.models import QualityResult
from observatory.runs.ingest import store_stages
from observatory.runs.models import Run
from observatory.runs.spec import fingerprint, setup
from observatory.studies import design, trials
from observatory.studies.design import ArmPlan
from observatory.studies.models import Study, Trial
from runners.load.dialects.base import Token
from runners.load.records import SCHEMA
from runners.load.summary import summarise
from runners.metrics import DEFINITIONS_VERSION
from runners.quality.answers import Answer
from runners.quality.answers import table as answers_table
from runners.quality.summary import quality, result
from runners.quality.tasks import built_in
from runners.server.summary import ServerSide
from runners.spec import RunSpec
from tests.simulation import (
    MONOTONIC_START_NS,
    NS,
    Plan,
    power_facts,
    power_rows,
    progress_series,
    request_rows,
    server_facts,
    server_rows,
    stage_summaries,
)


@dataclass(frozen=True)
class _Measured:
    """What a plan comes to."""

    files: dict[str, bytes]
    seconds: float
    stages: list[dict[str, Any]]
    energy: dict[str, Any]
    server: dict[str, Any]


_count = itertools.count(1)
_known: dict[str, _Measured] = {}
_seeds: list[tuple[type[Model], list[Model]]] = []
_START = datetime(2026, 11, 12, 9, 30, tzinfo=UTC)


def seeded() -> None:
    """The tables that come along, for tests on SQLite that only need them: read from the files once, then copied."""
    if not _seeds:
        seed()
        _seeds.extend((table.model, list(table.model._default_manager.all())) for table in TABLES)
    for model, rows in _seeds:
        if not model._default_manager.exists():
            model._default_manager.bulk_create(rows)


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
        runs_on_cpu=True,
        usd_per_hour=plan.usd_per_hour,
        price_source="rent, list price" if plan.usd_per_hour else "",
    )
    asked = plan.spec(endpoint.url, model).to_json()
    return Benchmark.objects.create(
        name=name or f"demo {number}",
        deployment=deployment,
        workload=asked["workload"],
        load=asked["load"],
        slo_ttft_ms=plan.slo.ttft_ms,
        slo_tpot_ms=plan.slo.tpot_ms,
        slo_e2e_ms=plan.slo.e2e_ms,
    )


def queued_run(of: Benchmark | None = None, plan: Plan | None = None, **fields: Any) -> Run:
    plan = plan or Plan()
    of = of or benchmark(plan=plan)
    asked = plan.spec(of.deployment.endpoint.url, of.deployment.endpoint.model)
    deployment = of.deployment
    return Run.objects.create(
        benchmark=of,
        deployment=deployment,
        endpoint=deployment.endpoint,
        trigger=fields.pop("trigger", Run.Trigger.PAGE),
        spec=asked.to_json(),
        spec_sha256=fingerprint(asked),
        setup=setup(of),
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
    """Ended by itself, with summary, stages, measurements, request rows and, where it has energy, power samples."""
    plan = plan or Plan()
    run = queued_run(of, plan, **{"status": Run.Status.FINISHED, **fields})
    _keep(run, plan)
    return run


def invalid_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    """Finished, but its numbers may not be used: most requests failed."""
    run = finished_run(of, replace(plan or Plan(), levels=(4,), failures=70))
    first = run.summary["reasons"][0]
    Run.objects.filter(pk=run.pk).update(reason_code=first["code"], reason=first["text"])
    run.refresh_from_db()
    return run


def lost_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    """The worker vanished in the second stage; what it had written was summed up."""
    plan = replace(plan or Plan(), levels=(1, 2))
    run = queued_run(
        of,
        plan,
        status=Run.Status.LOST,
        valid=False,
        epoch=1,
        lease_owner="bench@load-1",
        reason_code="worker_lost",
        reason="The worker fell silent while it measured. What it had stored is kept; nothing was sent again. "
        "Check the load host, then start a new run.",
        started_at=_START,
        ended_at=_START + timedelta(seconds=130),
        progress_series=progress_series(plan, 0.6),
    )
    rows = request_rows(plan)[0].slice(0, plan.requests + plan.requests // 3)
    run.summary = summarise(rows, RunSpec.from_json(run.spec))
    run.summary["valid"] = False
    interrupted = {"code": "interrupted", "text": "The run did not reach its end; these are the rows kept."}
    run.summary["reasons"].insert(0, interrupted)
    run.summary["stages"][-1]["verdict"] = "interrupted"
    run.definitions_version = DEFINITIONS_VERSION
    run.requests_file.save(f"{run.pk}/requests.parquet", ContentFile(_parquet(rows)))
    store_stages(run, run.summary)
    return run


def cancelled_run(of: Benchmark | None = None, plan: Plan | None = None) -> Run:
    """Stopped by its user in the second stage, of which the requests that had ended are kept."""
    run = lost_run(of, plan)
    run.status, run.reason_code = Run.Status.CANCELLED, "cancelled"
    run.reason = "Cancelled by its user. What had been measured is kept."
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


def _measured(plan: Plan, asked: dict[str, Any]) -> _Measured:
    """Worked out once for each plan: many tests begin with the same run."""
    key = repr((plan, asked))
    if key not in _known:
        rows, windows = request_rows(plan)
        power = power_rows(plan, windows)
        server = ServerSide(server_rows(plan, windows), server_facts(plan, windows))
        stages, energy = stage_summaries(plan, RunSpec.from_json(asked), rows, power, server)
        files = {"requests": _parquet(rows), "server": _parquet(server.samples)}
        if plan.energy:
            files["power"] = _parquet(power)
        _known[key] = _Measured(files, (windows[-1][1] - windows[0][0]) / NS, stages, energy, server.account)
    return deepcopy(_known[key])


def _keep(run: Run, plan: Plan) -> None:
    measured = _measured(plan, run.spec)
    run.started_at, run.ended_at = _START, _START + timedelta(seconds=measured.seconds)
    run.definitions_version = DEFINITIONS_VERSION
    run.summary = _summary(run, plan, measured.stages) | measured.energy
    run.summary["server"] = measured.server
    run.valid = run.summary["valid"]
    run.progress_series = progress_series(plan, 1.0)
    for name, data in measured.files.items():
        getattr(run, f"{name}_file").save(f"{run.pk}/{name}.parquet", ContentFile(data), save=False)
    run.save()
    store_stages(run, run.summary)


def _summary(run: Run, plan: Plan, stages: list[dict[str, Any]]) -> dict[str, Any]:
    environment = {"host": "load-1", "os": "Debian GNU/Linux 12", "cpu": "AMD EPYC 9354", "cpu_count": 2}
    return summarise(
        SCHEMA.empty_table(),
        RunSpec.from_json(run.spec),
        stages,
        runner_version="0.1.0",
        clock="kernel",
        clock_anchor={"monotonic_ns": MONOTONIC_START_NS, "utc": _START.isoformat()},
        started_at=_START.isoformat(),
        ended_at=run.ended_at.isoformat() if run.ended_at else None,
        environment={**environment, "memory_gb": 8.0, "python": "3.11.7", "accelerators": [], "driver": None},
        target={**run.spec["target"], "engine": "llama.cpp", "engine_version": "b6000"},
        power=power_facts(plan),
    )


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def study(ttft_ms: tuple[float, ...] = (80.0, 40.0), repeats: int = 3, **fields: Any) -> Study:
    """Arms "arm 1", "arm 2" and so on, one for each TTFT that ``trial`` gives it."""
    number = next(_count)
    deployments = [benchmark(name=f"unused {number} {index}").deployment for index in range(len(ttft_ms))]
    values = {
        "name": f"study {number}",
        "question": "Which arm answers sooner?",
        "spec": {"load": {"levels": [4], "requests": 60}},
        "measures": [{"metric": "ttft_ms", "statistic": "p50"}, {"metric": "output_tokens_per_s"}],
        "repeats": repeats,
        **fields,
    }
    plans = [
        ArmPlan(f"arm {index + 1}", deployment, x=None if "factor" not in fields else 10.0 * (index + 1))
        for index, deployment in enumerate(deployments)
    ]
    return design.create(Study(**values), plans)


def trial(
    of: Study,
    ttft_ms: tuple[float, ...] = (80.0, 40.0),
    runs: int | None = None,
    answers: Sequence[list[Answer]] = (),
) -> Trial:
    """A trial whose first ``runs`` turns are over (all: and so is the trial); repeats differ a little. ``answers`` of
    each arm, where the study asks questions.
    """
    made = trials.create(of, Run.Trigger.PAGE)
    for slot in list(made.slots.select_related("arm__deployment__endpoint"))[:runs]:
        if slot.kind == Run.Kind.QUALITY:
            slot.run = quality_result(slot.arm.deployment, answers[slot.arm.index]).job
        else:
            plan = Plan(levels=(4,), ttft_ms=ttft_ms[slot.arm.index] * (1 + 0.01 * slot.repeat), requests=20)
            slot.run = finished_run(slot.arm.benchmark, plan, trigger=Run.Trigger.STUDY)
        slot.save()
    if runs is None:
        trials.advance(made.pk)
    made.refresh_from_db()
    return made


# quality


def quality_job(deployment: Deployment, **fields: Any) -> QualityResult:
    """An evaluation that waits."""
    result = evaluations.queue(deployment, "basic", Run.Trigger.PAGE)
    Run.objects.filter(pk=result.job_id).update(**fields)
    return QualityResult.objects.select_related("job", "deployment").get(pk=result.pk)


def quality_answers(right_every: int = 3, changed: int = 0) -> list[Answer]:
    """Answers to the set that comes along: each third is right; the last ``changed`` have another text."""
    tasks = built_in().tasks
    found = []
    for place, task in enumerate(tasks):
        right = place % right_every == 0
        text = task.answers[0] if right else "I do not know."
        late = place >= len(tasks) - changed
        token = Token(text, -0.1, ((text, -0.1), ("No", -3.0)))
        found.append(
            Answer(
                task.id,
                task.kind.value,
                task.topic,
                text=f"{text} Truly." if late else text,
                finish_reason="stop",
                expected=task.answers[0],
                found=text,
                by="text",
                correct=right,
                tokens=(token, Token(" Truly.", -0.5, ((" Truly.", -0.5),))) if late else (token,),
            )
        )
    return found


def quality_result(deployment: Deployment, answers: list[Answer] | None = None, **fields: Any) -> QualityResult:
    """An evaluation that ended well."""
    answers = answers or quality_answers()
    asked = {"greedy": True, "logprobs": 20, "model": deployment.endpoint.model}
    summary = quality(result(answers, "The endpoint", asked), answers, None, [])
    file = io.BytesIO()
    pq.write_table(answers_table(answers), file)
    job = quality_job(deployment).job
    assert job is not None
    job.answers_file.save("answers.parquet", ContentFile(file.getvalue()), save=False)
    job.status, job.valid, job.summary = Run.Status.FINISHED, True, summary
    job.started_at = job.ended_at = _START
    job.save()
    QualityResult.objects.filter(job=job).update(**fields)
    evaluations.take_in()
    return QualityResult.objects.select_related("job", "deployment").get(job=job)
