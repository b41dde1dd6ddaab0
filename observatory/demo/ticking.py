"""In the place of beat, for commands that end by themselves."""

import time

from django.conf import settings

from observatory.demo.supervisor import Supervisor
from observatory.runs import dispatch
from observatory.studies import trials


class Ticking:
    """To be called often: checks the parts, looks for lost and waiting runs, takes studies on. Starts no schedules."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._next_s = 0.0

    def __call__(self) -> None:
        self._supervisor.check()
        if time.monotonic() > self._next_s:
            self._next_s = time.monotonic() + settings.TICK_S
            dispatch.reap()
            trials.advance_all()
            dispatch.sweep()
