"""Bringing the load hosts of one run together: calls them, has them begin as one, notices who is gone."""

import time
from functools import partial
from typing import Any

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from observatory.runs import dispatch, merging, shards, states
from observatory.runs.ingest import Ending
from observatory.runs.models import Run, Shard
from runners.progress import combined

_LOOK_S = 0.3
#: Between the agreement and the moment it names: every host must have read it by then.
_LEAD_NS = 2_000_000_000
_CALL_AGAIN_S = 10.0


class Crew:
    """Held by the worker that claimed the run. ``step`` while the first shard measures, then ``close``."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._began_s = time.monotonic()
        self._called_s = 0.0
        self._next_s = 0.0
        self._step = 0
        self._others: list[Shard] = []

    # while it runs

    def renew(self, progress: dict[str, Any], series: list[dict[str, Any]]) -> states.Hold:
        """The lease of the run, with the progress of all hosts together. Called from the watching thread."""
        return states.renew(self._run, combined([progress, *(shard.progress for shard in self._others)]), series)

    def step(self) -> Ending | None:
        """What there is to do now. An ending when the run cannot go on."""
        if time.monotonic() < self._next_s:
            return None
        self._next_s = time.monotonic() + _LOOK_S
        try:
            return self._look()
        except (OperationalError, InterfaceError):
            connection.close()
            return None

    def _look(self) -> Ending | None:
        shards.lose_silent(self._run)
        found = list(self._run.shards.all())
        self._others = found[1:]
        if waiting := [shard for shard in found if shard.status == Shard.Status.WAITING]:
            return self._call(waiting)
        if self._run.gathering:
            self._run.gathering = False
            states.gathered(self._run)
        gone = next((shard for shard in self._others if merging.fault(shard)), None)
        if gone is not None:
            return _ending(gone)
        if all(shard.ready_step == self._step and shard.clock_offset_ns is not None for shard in found):
            first = found[0]
            shards.agree(self._run, self._step, time.monotonic_ns() + (first.clock_offset_ns or 0) + _LEAD_NS)
            self._step += 1
        return None

    def _call(self, waiting: list[Shard]) -> Ending | None:
        """Messages may be lost: each is sent again until someone comes."""
        now_s = time.monotonic()
        if now_s - self._began_s > settings.RUN_GATHER_S:
            return _nobody_came(self._run.load_hosts, len(waiting))
        if now_s - self._called_s > _CALL_AGAIN_S or not self._called_s:
            self._called_s = now_s
            for shard in waiting:
                dispatch.call(shard)
        return None

    # at its end

    def close(self, ending: Ending) -> None:
        """Waits until no host sends any more; where the run did not end by itself, the others are told to stop."""
        if ending.status is not Run.Status.FINISHED:
            self._try(partial(shards.stop, self._run))
        deadline = time.monotonic() + settings.RUN_STOP_GRACE_S + settings.RUN_LEASE_S
        while time.monotonic() < deadline and not self._try(self._all_over):
            time.sleep(_LOOK_S)

    def _all_over(self) -> bool:
        shards.lose_silent(self._run)
        self._others = list(self._run.shards.filter(index__gt=0))
        return not any(shard.status == Shard.Status.MEASURING for shard in self._others)

    def _try(self, act: Any) -> Any:
        try:
            return act()
        except (OperationalError, InterfaceError):
            connection.close()
            return None

    def judged(self, ending: Ending) -> Ending:
        """A run that ended by itself is lost when one of its hosts is gone after all."""
        gone = next((shard for shard in self._others if merging.fault(shard)), None)
        return ending if gone is None or ending.status is not Run.Status.FINISHED else _ending(gone)


def _ending(gone: Shard) -> Ending:
    fault = merging.fault(gone)
    assert fault is not None  # noqa: S101
    lost = gone.status == Shard.Status.LOST or gone.ending == Run.Status.LOST
    words = f"{fault['text']}. The other load hosts were stopped; what all had measured is kept."
    return Ending(Run.Status.LOST if lost else Run.Status.FAILED, fault["code"], words)


def _nobody_came(asked: int, missing: int) -> Ending:
    return Ending(
        Run.Status.FAILED,
        "load_hosts_missing",
        f"{asked} load hosts were asked for and {missing} of them did not come within {settings.RUN_GATHER_S:g} "
        "seconds; nothing was measured. Start more bench workers, one on each load host, or ask for fewer.",
    )
