"""How a run moves from state to state: each step is one compare-and-set UPDATE, and its row count says who won.

Times come from the database's clock, so that hosts need not agree on theirs.
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Case, F, QuerySet, Value, When
from django.db.models.functions import Now

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment
from observatory.runs import money, spec
from observatory.runs.models import Run
from runners.quality.spec import QualitySpec
from runners.spec import RunSpec

#: The reason code of a running run whose lease ran out: its worker gets one more heartbeat to come back.
SILENT = "silent"


@dataclass(frozen=True)
class Hold:
    """What a renewal tells the worker: is the run still its own, and did someone ask to cancel it?"""

    mine: bool
    cancel: bool


def queue(
    benchmark: Benchmark,
    trigger: str,
    user: User | None = None,
    confirmed: str = "",
    asked: RunSpec | None = None,
) -> Run:
    """A new run that waits for a worker; ``dispatch.publish`` wakes one. Raises SpecError with what to change.

    ``confirmed``: the amount that was typed, for a run that may cost much at a paid endpoint. ``asked``: what is asked
    of the benchmark's deployment when that is more than the benchmark says.
    """
    asked = asked or spec.build(benchmark)
    return queue_asked(
        asked,
        benchmark.deployment,
        confirmed,
        benchmark=benchmark,
        trigger=trigger,
        started_by=user,
        load_hosts=asked.shard.count,
        setup=spec.setup(benchmark),
    )


def queue_asked(asked: RunSpec | QualitySpec, deployment: Deployment, confirmed: str, **fields: Any) -> Run:
    """A new run of any kind. Raises SpecError where its money may not be spent."""
    with transaction.atomic():
        return Run.objects.create(
            deployment=deployment,
            endpoint=deployment.endpoint,
            accelerator_group=deployment.accelerator_group,
            spec=asked.to_json(),
            spec_sha256=spec.fingerprint(asked),
            reserved_usd=money.reserve(asked, confirmed),
            **fields,
        )


def claim(run_id: int, owner: str) -> Run | None:
    """Makes a queued run the caller's own, for as long as it renews it. None: not queued, or its endpoint is busy.

    A run whose endpoint or accelerator group is busy stays queued and undispatched: it is woken when that ends. So does
    one of several load hosts while another one gathers its own: each might hold what the other waits for.
    """
    queued = Run.objects.filter(pk=run_id, status=Run.Status.QUEUED)
    try:
        with transaction.atomic():
            won = queued.update(
                status=Run.Status.RUNNING,
                epoch=F("epoch") + 1,
                lease_owner=owner,
                lease_expires_at=Now() + timedelta(seconds=settings.RUN_LEASE_S),
                heartbeat_at=Now(),
                started_at=Now(),
                gathering=Case(When(load_hosts__gt=1, then=True), default=False),
            )
    except IntegrityError:
        queued.update(dispatched_at=None)
        return None
    return Run.objects.get(pk=run_id) if won else None


def _held(run: Run) -> QuerySet[Run]:
    """The row while it is in the hands of the worker that ``run.epoch`` was given to."""
    return Run.objects.filter(pk=run.pk, epoch=run.epoch, status=Run.Status.RUNNING)


def renew(run: Run, progress: dict[str, Any], series: list[dict[str, Any]]) -> Hold:
    """Stores the progress and lengthens the lease, if the run is still the caller's."""
    held = _held(run)
    mine = held.update(
        lease_expires_at=Now() + timedelta(seconds=settings.RUN_LEASE_S),
        heartbeat_at=Now(),
        progress=progress,
        progress_series=series,
        reason_code="",
    )
    return Hold(mine=bool(mine), cancel=held.filter(cancel_requested_at__isnull=False).exists())


def end(run: Run, status: Run.Status, **results: Any) -> bool:
    """The last step. False when the run is no longer the caller's: late results of a lost run are refused."""
    return bool(_held(run).update(status=status, ended_at=Now(), lease_expires_at=None, gathering=False, **results))


def lose(run: Run, status: Run.Status, **results: Any) -> bool:
    """``end`` on behalf of a worker that vanished. False when it came back meanwhile, or the run has ended."""
    gone = _held(run).filter(lease_expires_at__lt=Now())
    return bool(gone.update(status=status, ended_at=Now(), lease_expires_at=None, gathering=False, **results))


def gathered(run: Run) -> None:
    """All load hosts of the run have joined: another run may gather its own."""
    _held(run).update(gathering=False)


def count_salvage(run: Run) -> int:
    """Which try to save the rows of a lost run begins now, from 1."""
    Run.objects.filter(pk=run.pk).update(salvages=F("salvages") + 1)
    run.refresh_from_db(fields=["salvages"])
    return run.salvages


def request_cancel(run_id: int) -> bool:
    """A queued run is cancelled at once, a running one within seconds. False when it had ended already."""
    run = Run.objects.filter(pk=run_id)
    at_once = run.filter(status=Run.Status.QUEUED).update(
        status=Run.Status.CANCELLED,
        cancel_requested_at=Now(),
        ended_at=Now(),
        settled_usd=Case(When(reserved_usd__isnull=False, then=Value(Decimal(0)))),
        valid=False,
        reason_code="cancelled",
        reason="Cancelled before it started; nothing was sent.",
    )
    return bool(at_once or run.filter(status=Run.Status.RUNNING).update(cancel_requested_at=Now()))


def expired() -> QuerySet[Run]:
    """Running runs whose lease ran out and whose worker did not come back within one more heartbeat.

    The extra heartbeat lets workers renew first when the database itself was away for longer than a lease.
    """
    out = Run.objects.filter(status=Run.Status.RUNNING, lease_expires_at__lt=Now())
    lost = out.filter(reason_code=SILENT)
    found = list(lost.values_list("pk", flat=True))
    out.exclude(reason_code=SILENT).update(
        reason_code=SILENT, lease_expires_at=Now() + timedelta(seconds=settings.RUN_HEARTBEAT_S)
    )
    return Run.objects.filter(pk__in=found)
