"""The shards of a run that several load hosts carry: rows that move by compare-and-set, as the run itself does."""

from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from observatory.runs import parts
from observatory.runs.clocks import Clock
from observatory.runs.models import Run, Shard
from observatory.runs.states import Hold


def create(run: Run, owner: str) -> Shard:
    """The rows of a run that was just claimed, in the place of those of an earlier try. Returns the first: the caller's
    own; the others wait for a load host each.
    """
    with transaction.atomic():
        run.shards.all().delete()
        rows = [Shard(run=run, index=index, epoch=run.epoch) for index in range(run.load_hosts)]
        Shard.objects.bulk_create(rows)
    first = run.shards.get(index=0)
    taken = join(first.pk, owner)
    assert taken is not None  # noqa: S101
    return taken


def join(shard_id: int, owner: str) -> Shard | None:
    """Makes a waiting shard the caller's. None: another host has it, or its run does not run any more."""
    waiting = Shard.objects.filter(pk=shard_id, status=Shard.Status.WAITING)
    joined = parts.take(waiting, Shard.Status.MEASURING, owner)
    return Shard.objects.select_related("run__endpoint").get(pk=shard_id) if joined else None


def _held(shard: Shard) -> QuerySet[Shard]:
    return Shard.objects.filter(pk=shard.pk, owner=shard.owner, status=Shard.Status.MEASURING)


def set_clock(shard: Shard, clock: Clock) -> None:
    _held(shard).update(clock_offset_ns=clock.offset_ns, clock_bound_ns=clock.bound_ns)


def renew(shard: Shard, progress: dict[str, Any], series: list[dict[str, Any]]) -> Hold:
    """Lengthens the shard's lease. It is no longer the caller's when the run has ended, or its own worker is silent."""
    leading = Run.objects.filter(
        pk=shard.run_id, epoch=shard.epoch, status=Run.Status.RUNNING, lease_expires_at__gte=Now()
    )
    led = leading.values_list("cancel_requested_at", flat=True)[:1]
    held = bool(_held(shard).update(lease_expires_at=parts.lease(), progress=progress))
    found = list(led)
    stop = Shard.objects.filter(pk=shard.pk, stop=True).exists()
    return Hold(mine=held and bool(found), cancel=stop or (bool(found) and found[0] is not None))


def set_ready(shard: Shard, step: int) -> None:
    _held(shard).update(ready_step=step)


def begin_of(shard: Shard, step: int) -> int | None:
    """When the step begins on this shard's clock, once that was agreed."""
    found = Shard.objects.filter(pk=shard.pk, begin_step=step).values_list("begin_ns", flat=True)
    return next(iter(found), None)


def agree(run: Run, step: int, at_ns: int) -> None:
    """All shards of the run begin ``step`` at that time of the broker, each on its own clock."""
    run.shards.update(begin_step=step, begin_ns=at_ns - F("clock_offset_ns"))


def end(shard: Shard, **results: Any) -> bool:
    """False when the shard was no longer the caller's."""
    return bool(_held(shard).update(status=Shard.Status.ENDED, **results))


def stop(run: Run) -> None:
    """Asks every shard that still measures to stop and put down what it has; those that nobody took are over."""
    run.shards.filter(status=Shard.Status.WAITING).update(status=Shard.Status.LOST)
    run.shards.filter(status=Shard.Status.MEASURING).update(stop=True)


def lose_silent(run: Run) -> None:
    """Shards whose load host fell silent are lost."""
    run.shards.filter(status=Shard.Status.MEASURING, index__gt=0, lease_expires_at__lt=Now()).update(
        status=Shard.Status.LOST,
        code="shard_lost",
        text="it fell silent while it measured; nothing was sent again",
    )
