"""Every task, a few lines each, calling a room. A message only wakes a worker: arguments are ids, results are rows."""

from celery import shared_task

from observatory.runs import dispatch, joined, launch
from observatory.schedules import due


@shared_task
def run_benchmark(run_id: int) -> None:
    launch.execute(run_id)


@shared_task
def run_shard(shard_id: int) -> None:
    joined.execute(shard_id)


@shared_task
def tick() -> None:
    """Every few seconds: what was lost is found, what waits is woken, what is due is started."""
    dispatch.reap()
    dispatch.sweep()
    due.start_due()
