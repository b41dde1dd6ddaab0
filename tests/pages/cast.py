"""A small world that fills every page: runs in every state, a schedule with a past, a probed and a failing endpoint."""

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from observatory.api import tokens
from observatory.api.models import Token
from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.quality.models import QualityResult
from observatory.runs.models import Run
from observatory.schedules.due import arm
from observatory.schedules.models import Occurrence, Schedule
from observatory.studies.models import Study, Trial
from tests import factories
from tests.simulation import Plan

#: A name that breaks a page which does not escape it.
HOSTILE = "<img src=x onerror=alert(1)>\"'&{{ 7|add:7 }}"

PROBE = {
    "usable": True,
    "code": "",
    "text": "",
    "url": "http://127.0.0.1:8080",
    "dialect": "openai-chat",
    "model": "smollm2-135m",
    "models": ["smollm2-135m", "smollm2-360m"],
    "engine": "llama.cpp",
    "engine_version": "b6000",
    "checks": [
        {
            "name": "models",
            "label": "lists its models",
            "ok": True,
            "evidence": "/v1/models answers 200 with 2 model(s)",
        },
        {"name": "streaming", "label": "streams", "ok": True, "evidence": "2 token events, text/event-stream"},
        {"name": "ignore_eos", "label": "takes ignore_eos", "ok": False, "evidence": "refused with a 400"},
        {"name": "metrics", "label": "has a metrics page", "ok": None, "evidence": "no answer"},
    ],
}
PREDICTION = {"calculator": "speculative", "output": "speedup", "as": "speedup", "inputs": {"drafted": 3}}
UNUSABLE = PROBE | {
    "usable": False,
    "code": "connect_refused",
    "text": "Nothing listens at that address and port. Start the server, or correct the port.",
    "models": [],
    "checks": [],
    "engine": "",
    "engine_version": "",
}


@dataclass(frozen=True)
class Cast:
    endpoint: Endpoint
    deployment: Deployment
    benchmark: Benchmark
    schedule: Schedule
    token: Token
    finished: Run
    running: Run
    queued: Run
    quality: QualityResult
    study: Study
    trial: Trial


def fill(user: User) -> Cast:
    """The world; its hostile names are those of the second deployment and its benchmark."""
    factories.seeded()
    benchmark = factories.benchmark(name="chat, short answers")
    endpoint = benchmark.deployment.endpoint
    Endpoint.objects.filter(pk=endpoint.pk).update(probe=PROBE, probed_at=timezone.now())
    Endpoint.objects.create(
        name="gpu-7", url="http://gpu-7:8000", model="llama-3.1-8b", probe=UNUSABLE, probed_at=timezone.now()
    )
    hostile = factories.benchmark(model=HOSTILE, name=HOSTILE)
    finished = factories.finished_run(benchmark, Plan(levels=(1, 4)))
    factories.finished_run(benchmark, Plan(levels=(1, 4), ttft_ms=120.0))
    factories.invalid_run(benchmark)
    factories.lost_run(benchmark)
    factories.cancelled_run(hostile)
    factories.failed_run(hostile)
    running = factories.running_run(hostile)
    queued = factories.queued_run(hostile)
    schedule = Schedule(benchmark=benchmark, cron="0 3 * * 1-5", time_zone="Europe/Berlin", created_by=user)
    arm(schedule)
    _past(schedule, finished)
    reference = factories.quality_result(factories.benchmark("llama-3.1-8b").deployment)
    answers = factories.quality_answers(right_every=4, changed=6)
    of_reference = {"reference_deployment": reference.deployment}
    quality = factories.quality_result(benchmark.deployment, answers, beside=finished, **of_reference)
    factories.quality_job(hostile.deployment)
    token, _ = tokens.make(user, "nightly report")
    endpoint.refresh_from_db()
    study = factories.study(prediction=PREDICTION)
    trial = factories.trial(study)
    return Cast(
        endpoint, benchmark.deployment, benchmark, schedule, token, finished, running, queued, quality, study, trial
    )


def _past(schedule: Schedule, run: Run) -> None:
    now = timezone.now()
    for days, outcome, reason in (
        (1, Occurrence.Outcome.STARTED, ""),
        (2, Occurrence.Outcome.SKIPPED, "Run 3 of this schedule was still running."),
        (3, Occurrence.Outcome.MISSED, "Nothing looked at the schedules at that time."),
    ):
        Occurrence.objects.create(
            schedule=schedule,
            due_at=now - timedelta(days=days),
            outcome=outcome,
            reason=reason,
            run=run if outcome == Occurrence.Outcome.STARTED else None,
        )
