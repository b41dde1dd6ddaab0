"""Waiting for a database that is away."""

import time
from collections.abc import Callable

from django.db import InterfaceError, OperationalError, connection


def patiently(act: Callable[[], bool], patience_s: float) -> bool:
    """``act()``, again and again while the database is away."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return act()
        except (OperationalError, InterfaceError):
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(1)
