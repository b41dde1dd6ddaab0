"""Waking workers. The row is the truth and a message only a wake-up: it may be lost, late, or come five times."""

import logging
from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now
from kombu.exceptions import OperationalError

from observatory.celery import app
from observatory.runs import ingest, states
from observatory.runs.models import Run, Sampling, Shard

TASK = "observatory.tasks.run_benchmark"
SHARD_TASK = "observatory.tasks.run_shard"
POWER_TASK = "observatory.tasks.sample_power"
#: A message that led to nothing for so long is taken for lost.
LOST_AFTER = timedelta(seconds=60)
#: So often the rows of a lost run are read; then it ends without them.
SALVAGE_TRIES = 3

_CLAIMING = ("status", "endpoint_id", "accelerator_group", "gathering", "load_hosts")

logger = logging.getLogger(__name__)


def publish(run: Run) -> bool:
    """Wakes a bench worker for a committed run. False: the broker cannot be reached, and the run starts by itself
    when it is back.
    """
    try:
        with app.connection_for_write() as connection:
            app.send_task(TASK, args=[run.pk], connection=connection)
    except (OperationalError, OSError) as error:
        logger.warning("run %s stays queued: the broker cannot be reached (%s)", run.pk, type(error).__name__)
        return False
    Run.objects.filter(pk=run.pk, status=Run.Status.QUEUED).update(dispatched_at=Now())
    return True


def call(shard: Shard) -> None:
    """Asks for one more load host. A broker that cannot be reached is asked again by the caller."""
    try:
        with app.connection_for_write() as connection:
            app.send_task(SHARD_TASK, args=[shard.pk], connection=connection)
    except (OperationalError, OSError) as error:
        logger.warning("run %s waits for a load host: no broker (%s)", shard.run_id, type(error).__name__)


def call_power(sampling: Sampling, within_s: float) -> None:
    """Asks the power worker of a machine; the message goes when nobody took it ``within_s``. As with ``call``."""
    try:
        with app.connection_for_write() as connection:
            queue = power_queue(sampling.host)
            app.send_task(POWER_TASK, args=[sampling.pk], queue=queue, expires=within_s, connection=connection)
    except (OperationalError, OSError) as error:
        logger.warning("run %s waits for a power worker: no broker (%s)", sampling.run_id, type(error).__name__)


def power_queue(host: str) -> str:
    return f"power.{host}"


def sweep() -> None:
    """Wakes a worker for the oldest run of each free endpoint that has no message under way."""
    taken: set[tuple[str, object]] = set()
    for run in Run.objects.filter(status=Run.Status.RUNNING).only(*_CLAIMING):
        taken |= _claims(run)
    unheard = Q(dispatched_at__isnull=True) | Q(dispatched_at__lt=Now() - LOST_AFTER)
    waiting = Run.objects.filter(status=Run.Status.QUEUED)
    due = set(waiting.filter(unheard).values_list("pk", flat=True))
    for run in waiting.order_by("pk").only(*_CLAIMING):
        if not taken.isdisjoint(_claims(run)):
            continue
        taken |= _claims(run)
        if run.pk in due and not publish(run):
            return


def _claims(run: Run) -> set[tuple[str, object]]:
    """What a run has to itself while it measures, or must have to begin."""
    claims: set[tuple[str, object]] = {("endpoint", run.endpoint_id)}
    if run.accelerator_group:
        claims.add(("group", run.accelerator_group))
    if run.gathering or (run.status == Run.Status.QUEUED and run.load_hosts > 1):
        claims.add(("load hosts", "gathering"))
    return claims


def reap() -> None:
    """Runs whose worker vanished become lost, with the rows that it had put into storage. Nothing is sent again.

    A try is counted before it is made: rows that crash their reader cost SALVAGE_TRIES crashes, and not every tick.
    """
    for run in states.expired():
        try:
            if states.count_salvage(run) > SALVAGE_TRIES:
                ingest.abandon(run)
            else:
                ingest.salvage(run)
        except Exception:
            logger.exception("run %s could not be salvaged; the next tick tries again", run.pk)
