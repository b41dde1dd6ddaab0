"""The Celery application. Start workers with ``celery -A observatory worker -Q bench -c 1`` and ``-Q control``."""

import os
import signal
from typing import Any

from celery import Celery
from celery.signals import worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "observatory.settings")

app = Celery("observatory")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["observatory"])


@worker_ready.connect
def _stop_without_waiting(**_: Any) -> None:
    """A worker that is told to stop must not wait for an hour-long run: SIGTERM does what SIGQUIT does. The run is
    stopped and its rows are kept.
    """
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGQUIT))
