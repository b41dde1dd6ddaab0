"""What shards and samplings share: a part of a run that one worker takes, and keeps as long as it renews its lease."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from observatory.runs.models import Run


def lease(more_s: float = 0.0) -> Any:
    """When a lease ends that is renewed now, on the database's clock."""
    return Now() + timedelta(seconds=settings.RUN_LEASE_S + more_s)


def take(waiting: QuerySet[Any], taken: str, owner: str) -> bool:
    """Makes a waiting part the caller's, with ``taken`` as its status. False: another worker has it, or its
    run does not run any more.
    """
    wanted = waiting.filter(run__status=Run.Status.RUNNING, run__epoch=F("epoch"), run__cancel_requested_at=None)
    return bool(waiting.filter(pk__in=wanted.values("pk")).update(status=taken, owner=owner, lease_expires_at=lease()))
