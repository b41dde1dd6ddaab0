"""Is the web server able to do its work? For load balancers and container health checks; needs no login."""

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from kombu.exceptions import OperationalError

from observatory.celery import app


def healthz(request: HttpRequest) -> JsonResponse:
    """200 when database and broker answer, else 503. Says "ok" or "down" of each, and no more."""
    parts = {"database": _word(_database), "broker": _word(_broker)}
    ok = all(word == "ok" for word in parts.values())
    return JsonResponse({"status": "ok" if ok else "down", **parts}, status=200 if ok else 503)


def _word(check: Callable[[], None]) -> str:
    try:
        check()
    except (DatabaseError, OperationalError, OSError):
        return "down"
    return "ok"


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _broker() -> None:
    with app.connection_for_write() as broker:
        broker.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=3)
