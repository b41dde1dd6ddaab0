"""The Celery application. Start workers with ``celery -A observatory worker -Q bench -c 1`` and ``-Q control``."""

import os
import signal
from types import FrameType
from typing import Any

from billiard.process import active_children
from celery import Celery
from celery.signals import worker_ready

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "observatory.settings")
#: Django's checks import every page and address, which a worker has no use for; `manage.py migrate` runs them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

app = Celery("observatory")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["observatory"])


@worker_ready.connect
def _stop_tasks_on_sigterm(**_: Any) -> None:
    """A worker that is told to stop waits for its tasks; so its tasks are told as well, or it might wait for hours.

    A run that is told so ends within seconds and keeps its rows. (Celery's cold shutdown, the alternative, can hang
    when the broker is away.)
    """
    finish = signal.getsignal(signal.SIGTERM)

    def stop(number: int, frame: FrameType | None) -> None:
        if callable(finish):
            finish(number, frame)
        for child in active_children():
            child.terminate()

    signal.signal(signal.SIGTERM, stop)
