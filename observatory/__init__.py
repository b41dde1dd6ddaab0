"""The application around the instruments: one folder a noun."""

from observatory.celery import app as celery_app

__all__ = ["celery_app"]
