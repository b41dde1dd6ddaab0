"""A load host as one of several: it takes a shard of a run that another host leads, and measures it."""

import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from observatory.runs import clocks, ingest, patience, plain, shards, spool, work
from observatory.runs.follow import follow
from observatory.runs.ingest import Ending
from observatory.runs.instrument import Instrument
from observatory.runs.models import Run, Shard
from observatory.runs.watch import Renew, Watch

logger = logging.getLogger(__name__)

_LOOK_S = 0.2


class Relay:
    """Between an instrument that waits to begin and the database, where the hosts agree on when."""

    def __init__(self, shard: Shard, instrument: Instrument) -> None:
        self._shard = shard
        self._instrument = instrument
        self._said = self._told = -1
        self._next_s = 0.0

    def step(self) -> Ending | None:
        """Never ends the run: while the database is away the shards wait."""
        progress = self._instrument.progress
        step = progress.get("step") if progress.get("phase") == "wait" else None
        if step is None or step == self._told or time.monotonic() < self._next_s:
            return None
        self._next_s = time.monotonic() + _LOOK_S
        try:
            self._pass_on(step)
        except (OperationalError, InterfaceError):
            connection.close()
        return None

    def _pass_on(self, step: int) -> None:
        if self._said != step:
            shards.set_ready(self._shard, step)
            self._said = step
        begin_ns = shards.begin_of(self._shard, step)
        if begin_ns is not None:
            self._instrument.begin(begin_ns)
            self._told = step


@contextmanager
def measuring(shard: Shard, directory: Path, secret: str, renew: Renew) -> Iterator[tuple[Instrument, Watch, Relay]]:
    """The instrument of a shard at work in ``directory``."""
    spec = work.furnish(shard.run, directory, shard={**shard.run.spec["shard"], "index": shard.index})
    connection.close()  # each step opens its own
    copier = spool.Copier(shard.run, directory, secret, shard.index)
    with Instrument(spec, directory, secret) as instrument, Watch(instrument, copier, secret, renew) as watch:
        yield instrument, watch, Relay(shard, instrument)


def execute(shard_id: int) -> None:
    """Carries a shard to its end; does nothing when another host has it or nobody waits for it any more."""
    work.clear()
    shard = shards.join(shard_id, f"{socket.gethostname()}:{os.getpid()}")
    if shard is None:
        return
    directory = work.folder(shard.run, shard.index)
    secret = ""
    try:
        secret = shard.run.endpoint.api_key
        if work.moved(shard.run):
            _finish(shard, work.MOVED, directory, secret)
            return
        shards.set_clock(shard, clocks.compare())
        directory.mkdir(parents=True, mode=0o700)
        with measuring(shard, directory, secret, partial(shards.renew, shard)) as (instrument, watch, relay):
            ending = follow(shard.run, instrument, watch, relay.step)
            _finish(shard, ending, directory, secret)
    except work.Missing as missing:
        _finish(shard, missing.ending, directory, secret)
    except Exception as error:
        logger.exception("shard %s of run %s could not be carried out", shard.index, shard.run_id)
        _finish(shard, Ending(Run.Status.FAILED, "load_host", f"could not carry it out: {error}"), directory, secret)
    except BaseException:
        stopped = Ending(Run.Status.LOST, "worker_stopped", "its worker was stopped while it measured")
        _finish(shard, stopped, directory, secret)
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _finish(shard: Shard, ending: Ending, directory: Path, secret: str) -> None:
    """Puts rows and summary where the leading host finds them."""
    folder = spool.folder(shard.run, shard.index)
    results = {
        "ending": ending.status,
        "code": ending.code[:60],
        "text": plain.text(ending.text, secret),
        "summary": _summary(directory, secret),
        "requests_file": ingest.store(folder, ingest.raw_rows(directory, "requests"), "requests.parquet", secret),
        "clock_drift_ns": _drift_ns(shard),
    }
    if not patience.patiently(lambda: shards.end(shard, **results), settings.RUN_LEASE_S):
        logger.warning("shard %s of run %s was no longer this host's", shard.index, shard.run_id)


def _summary(directory: Path, secret: str) -> object:
    try:
        return plain.loads((directory / "summary.json").read_bytes(), secret)
    except (OSError, ValueError):
        return None


def _drift_ns(shard: Shard) -> int | None:
    """How far this clock went from the broker's meanwhile; missing when that cannot be asked."""
    before = Shard.objects.values_list("clock_offset_ns", flat=True).get(pk=shard.pk)
    try:
        return None if before is None else clocks.compare().offset_ns - before
    except clocks.ClockError:
        logger.warning("the clocks could not be compared again", exc_info=True)
        return None
