"""Power sampled elsewhere for a run: rows that move by compare-and-set, as the run itself does."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from observatory.runs import parts
from observatory.runs.clocks import Clock
from observatory.runs.models import Run, Sampling


def create(run: Run, hosts: list[str]) -> list[Sampling]:
    """A waiting row a host, in the place of those of an earlier try."""
    with transaction.atomic():
        run.samplings.all().delete()
        Sampling.objects.bulk_create(Sampling(run=run, host=host, epoch=run.epoch) for host in hosts)
    return list(run.samplings.all())


def join(sampling_id: int, owner: str) -> Sampling | None:
    """Makes a waiting sampling the caller's. None: another worker has it, or its run does not run any more."""
    waiting = Sampling.objects.filter(pk=sampling_id, status=Sampling.Status.WAITING)
    joined = parts.take(waiting, Sampling.Status.SAMPLING, owner)
    return Sampling.objects.select_related("run").get(pk=sampling_id) if joined else None


def _held(sampling: Sampling) -> QuerySet[Sampling]:
    return Sampling.objects.filter(pk=sampling.pk, owner=sampling.owner, status=Sampling.Status.SAMPLING)


def ready(sampling: Sampling, clock: Clock) -> None:
    """It samples, and its clock is known."""
    _held(sampling).update(clock_offset_ns=clock.offset_ns, clock_bound_ns=clock.bound_ns)


def renew(sampling: Sampling, power_w: float | None) -> bool:
    """Lengthens the lease. False when there is nothing more to sample: it was asked to stop, is no longer the caller's,
    or the worker that drives the run is silent or gone.
    """
    held = _held(sampling).filter(stop=False)
    driven = Run.objects.filter(
        pk=sampling.run_id, epoch=sampling.epoch, status=Run.Status.RUNNING, lease_expires_at__gte=Now()
    )
    return bool(held.update(lease_expires_at=parts.lease(), power_w=power_w)) and driven.exists()


def settle(sampling: Sampling, seconds: float) -> None:
    """It reads on for a while so that the end of the run is bracketed, and cannot renew meanwhile."""
    _held(sampling).update(lease_expires_at=parts.lease(seconds))


def end(sampling: Sampling, **results: Any) -> bool:
    """False when it was no longer the caller's, or its run has ended: nobody will look at what was sampled."""
    running = Run.objects.filter(pk=sampling.run_id, epoch=sampling.epoch, status=Run.Status.RUNNING)
    held = _held(sampling).filter(run__in=running.values("pk"))
    return bool(held.update(status=Sampling.Status.ENDED, **results))


def fail(sampling: Sampling, code: str, text: str) -> bool:
    return bool(_held(sampling).update(status=Sampling.Status.LOST, code=code, text=text))


def miss(run: Run, text: str) -> None:
    """Nobody took what still waits."""
    waiting = run.samplings.filter(status=Sampling.Status.WAITING)
    waiting.update(status=Sampling.Status.LOST, code="power_worker_missing", text=text)


def stop(run: Run) -> None:
    """Asks every worker that samples to put down what it has."""
    run.samplings.filter(status=Sampling.Status.SAMPLING).update(stop=True)


def lose_silent(run: Run) -> None:
    _lose(run.samplings.filter(lease_expires_at__lt=Now()))


def give_up(run: Run) -> None:
    """Those that still sample are waited for no longer."""
    _lose(run.samplings.all())


def _lose(found: QuerySet[Sampling]) -> None:
    found.filter(status=Sampling.Status.SAMPLING).update(
        status=Sampling.Status.LOST, code="power_worker_lost", text="its power worker fell silent while it sampled"
    )
