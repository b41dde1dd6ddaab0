"""Every task, a few lines each, calling a room. A message only wakes a worker: arguments are ids, results are rows."""

import logging

from celery import shared_task
from django.db import connection

from observatory.quality import evaluations
from observatory.runs import dispatch, joined, launch, sampled
from observatory.schedules import due
from observatory.studies import trials

logger = logging.getLogger(__name__)


@shared_task
def run_benchmark(run_id: int) -> None:
    launch.execute(run_id)
    trials.run_ended(run_id)
    evaluations.take_in()


@shared_task
def run_shard(shard_id: int) -> None:
    joined.execute(shard_id)


@shared_task
def sample_power(sampling_id: int) -> None:
    sampled.execute(sampling_id)


@shared_task
def tick() -> None:
    """Every few seconds: what was lost is found, studies go on, what waits is woken, what is due is started, what
    evaluations found is taken in; each whatever becomes of the others.
    """
    for part in (dispatch.reap, trials.advance_all, dispatch.sweep, due.start_due, evaluations.take_in):
        try:
            part()
        except Exception:
            logger.exception("%s failed; the next tick tries again", part.__qualname__)
            connection.close_if_unusable_or_obsolete()
