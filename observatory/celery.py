"""The Celery application. Start workers with ``celery -A observatory worker -Q bench -c 1`` and ``-Q control``."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "observatory.settings")

app = Celery("observatory")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["observatory"])
