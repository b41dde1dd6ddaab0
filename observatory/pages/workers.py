"""Who is there to work: the broker and the queues that workers listen to. Asked at most once in ten seconds."""

from dataclasses import dataclass, field
from datetime import timedelta

from django.core.cache import cache
from django.utils import timezone
from kombu.exceptions import OperationalError

from observatory.celery import app
from observatory.schedules.models import Schedule

_KEY = "pages.workers"
_POWER = "power."
_KEEP_S = 10
_REPLY_S = 1.0
_LATE_S = 120


@dataclass(frozen=True)
class Workers:
    """``queues``: names of the workers that listen to each queue."""

    broker: bool
    queues: dict[str, list[str]] = field(default_factory=dict)

    @property
    def bench(self) -> list[str]:
        return self.queues.get("bench", [])

    @property
    def control(self) -> list[str]:
        return self.queues.get("control", [])

    @property
    def power(self) -> list[str]:
        """Names of the machines whose power workers listen."""
        return sorted(queue.removeprefix(_POWER) for queue in self.queues if queue.startswith(_POWER))


def workers() -> Workers:
    """What is known, not older than ten seconds."""
    known: Workers | None = cache.get(_KEY)
    if known is None:
        known = _ask()
        cache.set(_KEY, known, _KEEP_S)
    return known


def _ask() -> Workers:
    try:
        with app.connection_for_read() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
            mailbox = app.control.mailbox(connection)  # type: ignore[attr-defined]
            mailbox.producer_pool = None  # a pooled connection to a broker that went away is retried for ever
            replies = mailbox.multi_call("active_queues", timeout=_REPLY_S)
    except (OperationalError, OSError):
        return Workers(broker=False)
    queues: dict[str, list[str]] = {}
    for reply in replies:
        for worker, listened in reply.items():
            for queue in listened:
                queues.setdefault(str(queue["name"]), []).append(str(worker))
    return Workers(broker=True, queues=queues)


def late_schedules() -> int:
    """Schedules whose time has passed with nobody taking it: beat or the control worker is away."""
    since = timezone.now() - timedelta(seconds=_LATE_S)
    return Schedule.objects.filter(enabled=True, next_due_at__lt=since).count()
