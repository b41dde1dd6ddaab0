"""One execution: claim the run, start the instrument, watch it, and put down how it ended, whatever happens."""

import logging
import os
import shutil
import socket
from functools import partial
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from observatory.runs import clocks, dispatch, engines, ingest, merging, plain, shards, spool, states, work
from observatory.runs.crew import Crew
from observatory.runs.follow import follow
from observatory.runs.ingest import Ending
from observatory.runs.instrument import Instrument
from observatory.runs.joined import measuring
from observatory.runs.models import Run
from observatory.runs.patience import patiently
from observatory.runs.powerhosts import PowerHosts
from observatory.runs.watch import Watch
from runners.load.judgement import reason

logger = logging.getLogger(__name__)

#: How long the results of a measured run wait for a database that is away, and those of a stopped worker.
_PATIENCE_S = 1800.0
_STOPPED_PATIENCE_S = 5.0


def execute(run_id: int) -> None:
    """Runs a queued run to its end; does nothing when it is not queued or its endpoint is busy."""
    work.clear()
    run = states.claim(run_id, f"{socket.gethostname()}:{os.getpid()}")
    if run is None:
        return
    directory = work.folder(run)
    secret = ""
    try:
        secret = run.endpoint.api_key
        directory.mkdir(parents=True, mode=0o700)
        if work.moved(run):
            _store(run, work.MOVED, directory, secret, _PATIENCE_S)
        elif run.load_hosts == 1:
            _measure_and_store(run, directory, secret)
        else:
            _measure_together(run, directory, secret)
    except (work.Missing, engines.NotMeasuredError) as unable:
        _store(run, unable.ending, directory, secret, _PATIENCE_S)
    except (OSError, ImproperlyConfigured, clocks.ClockError) as error:
        logger.exception("run %s could not be carried out", run.pk)
        _store(run, _host_fault(error), directory, secret, _PATIENCE_S)
    except BaseException:
        stopped = Ending(
            Run.Status.LOST,
            "worker_stopped",
            "The worker was stopped while it measured. What it had measured is kept; nothing is sent again. "
            "Start a new run.",
        )
        _store(run, stopped, directory, secret, _STOPPED_PATIENCE_S)
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    dispatch.sweep()


def _measure_and_store(run: Run, directory: Path, secret: str) -> None:
    copier, hosts = spool.Copier(run, directory, secret), PowerHosts(run)
    if ending := hosts.gather():
        _store(run, ending, directory, secret, _PATIENCE_S)
        return
    renew = hosts.renewing(partial(states.renew, run))
    with engines.running(run, directory, secret, renew) as engine:
        spec = work.furnish(run, directory, **engines.aimed(run, engine))
        connection.close()  # nothing needs it until the run has ended
        instrument = Instrument(spec, directory, secret, run.kind)
        with instrument, Watch(instrument, copier, secret, renew) as watch:
            ending = follow(run, instrument, watch, partial(engines.died, engine))
            engines.end(engine, directory)
            hosts.close()
            _store(run, ending, directory, secret, _PATIENCE_S, hosts)


def _measure_together(run: Run, directory: Path, secret: str) -> None:
    """As the first of several load hosts, and the one that brings all of them together."""
    hosts = PowerHosts(run)
    if ending := hosts.gather():
        _store(run, ending, directory, secret, _PATIENCE_S)
        return
    first = shards.create(run, run.lease_owner)
    shards.set_clock(first, clocks.compare())
    own = directory / "0"
    own.mkdir()
    crew = Crew(run)
    with measuring(first, own, secret, hosts.renewing(crew.renew)) as (instrument, watch, relay):
        ending = follow(run, instrument, watch, lambda: relay.step() or crew.step())
        crew.close(ending)
        hosts.close()
        _store(run, crew.judged(ending), directory, secret, _PATIENCE_S, hosts)


def _host_fault(error: Exception) -> Ending:
    fix = f" Check the space and rights of {settings.VAR_DIR}, then start a new run."
    return Ending(
        Run.Status.FAILED,
        "load_host",
        f"The load host could not carry out the run: {error}." + (fix if isinstance(error, OSError) else ""),
    )


def _fault(ending: Ending) -> dict[str, str] | None:
    return None if ending.status is Run.Status.FINISHED else reason(ending.code, ending.text)


def _store(
    run: Run, ending: Ending, directory: Path, secret: str, patience_s: float, hosts: PowerHosts | None = None
) -> None:
    """Ends the run with what lies in ``directory`` and what its ``hosts`` sampled, and waits for a database that is
    away.
    """
    if run.load_hosts > 1:
        directory = merging.merged(run, directory, _fault(ending))
    if hosts:
        hosts.put(directory)
    results = ingest.collect(run, directory, secret)
    if ending.status is Run.Status.FINISHED and results.summary is None:
        ending = Ending(Run.Status.FAILED, ending.code or "no_summary", ending.text or "It left no summary.")
    ending = Ending(ending.status, ending.code, plain.text(ending.text, secret))
    if not patiently(lambda: ingest.close(run, ending, results), patience_s):
        logger.warning("run %s was no longer this worker's to end", run.pk)
