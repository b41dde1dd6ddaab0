"""Where a worker puts what it measures until that is stored, and whether it may measure at all."""

import logging
import shutil
from pathlib import Path

from django.conf import settings

from observatory.runs.ingest import Ending
from observatory.runs.models import Run

logger = logging.getLogger(__name__)

MOVED = Ending(
    Run.Status.FAILED,
    "endpoint_changed",
    "The endpoint has changed since the run was queued: start it again. Nothing was sent.",
)


def moved(run: Run) -> bool:
    """Whether the endpoint has another address by now: its key is for that one and must not reach the old one."""
    return bool(run.spec["target"]["url"] != run.endpoint.url)


def _all() -> Path:
    return Path(settings.VAR_DIR) / "work"


def folder(run: Run, shard: int = 0) -> Path:
    return _all() / (f"{run.pk}-{run.epoch}" + (f"-{shard}" if shard else ""))


def power_folder(run: Run, host: str) -> Path:
    """Of the worker that samples power on ``host``, which may be a load host as well."""
    return _all() / f"{run.pk}-{run.epoch}-power-{host}"


def clear() -> None:
    """Removes the folders that killed workers of this host left behind: those of runs that run no more."""
    running = Run.objects.filter(status=Run.Status.RUNNING).values_list("pk", "epoch")
    kept = {f"{pk}-{epoch}" for pk, epoch in running}
    for left in _all().glob("*-*"):
        if "-".join(left.name.split("-")[:2]) not in kept:
            logger.warning("%s is removed: its worker was killed, and its run has ended", left)
            shutil.rmtree(left, ignore_errors=True)
