"""One execution: claim the run, start the instrument, watch it, and put down how it ended, whatever happens."""

import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import InterfaceError, OperationalError, connection

from observatory.runs import dispatch, ingest, plain, spool, states
from observatory.runs.ingest import Ending
from observatory.runs.instrument import Instrument
from observatory.runs.models import Run
from observatory.runs.watch import Verdict, Watch

logger = logging.getLogger(__name__)

_POLL_S = 0.2
#: A lost run has no claim on its endpoint any more: sending must stop within this.
_LOST_GRACE_S = 2.0
#: How long the results of a measured run wait for a database that is away, and those of a stopped worker.
_PATIENCE_S = 1800.0
_STOPPED_PATIENCE_S = 5.0
_MOVED = Ending(
    Run.Status.FAILED,
    "endpoint_changed",
    "The endpoint has changed since the run was queued: start it again. Nothing was sent.",
)


def execute(run_id: int) -> None:
    """Runs a queued run to its end; does nothing when it is not queued or its endpoint is busy."""
    clear_work()
    run = states.claim(run_id, f"{socket.gethostname()}:{os.getpid()}")
    if run is None:
        return
    directory = _work() / f"{run.pk}-{run.epoch}"
    secret = ""
    try:
        secret = run.endpoint.api_key
        connection.close()  # nothing needs it until the run has ended
        directory.mkdir(parents=True, mode=0o700)
        _measure_and_store(run, directory, secret)
    except (OSError, ImproperlyConfigured) as error:
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


def _work() -> Path:
    return Path(settings.VAR_DIR) / "work"


def clear_work() -> None:
    """Removes the folders that killed workers of this host left behind: those of runs that run no more."""
    running = Run.objects.filter(status=Run.Status.RUNNING).values_list("pk", "epoch")
    kept = {f"{pk}-{epoch}" for pk, epoch in running}
    for left in _work().glob("*-*"):
        if left.name not in kept:
            logger.warning("%s is removed: its worker was killed, and its run has ended", left)
            shutil.rmtree(left, ignore_errors=True)


def _measure_and_store(run: Run, directory: Path, secret: str) -> None:
    if run.spec["target"]["url"] != run.endpoint.url:  # the key is for the new address and must not reach the old one
        _store(run, _MOVED, directory, secret, _PATIENCE_S)
        return
    spec = directory / "spec.json"
    spec.write_text(json.dumps(run.spec, allow_nan=False))
    copier = spool.Copier(run, directory, secret)
    with Instrument(spec, directory, secret) as instrument, Watch(run, instrument, copier, secret) as watch:
        verdict = _follow(run, instrument, watch)
        ending = _ending(instrument, verdict)
        if ending:
            _store(run, ending, directory, secret, _PATIENCE_S)


def _follow(run: Run, instrument: Instrument, watch: Watch) -> Verdict | None:
    """Waits for the instrument's end. A verdict says that it was stopped for it; None that it was stopped as hung."""
    while instrument.listen(_POLL_S):
        verdict = watch.verdict
        if verdict is Verdict.LOST:
            instrument.stop(_LOST_GRACE_S)
            return verdict
        if verdict is Verdict.CANCEL:
            instrument.stop(settings.RUN_STOP_GRACE_S)
            return verdict
        if time.monotonic() - instrument.heard_at > _silence_s(run, instrument):
            instrument.stop(_LOST_GRACE_S)
            return None
    return Verdict.GO_ON


def _silence_s(run: Run, instrument: Instrument) -> float:
    """How long it may say nothing; while it checks the endpoint, as long as one request may take besides."""
    if instrument.progress.get("phase", "check") != "check":
        return float(settings.RUN_SILENCE_S)
    timeouts = run.spec["timeouts"]
    return float(settings.RUN_SILENCE_S + timeouts["connect_s"] + timeouts["total_s"])


def _ending(instrument: Instrument, verdict: Verdict | None) -> Ending:
    if verdict is None:
        return Ending(
            Run.Status.FAILED,
            "instrument_silent",
            f"The instrument said nothing for {settings.RUN_SILENCE_S:g} seconds and was stopped. "
            "What it had measured is kept.",
        )
    if verdict is Verdict.LOST:
        return Ending(
            Run.Status.LOST,
            "lease_lost",
            f"The worker could not reach the database for {settings.RUN_LEASE_S:g} seconds and stopped sending. "
            "What it had measured is kept.",
        )
    if verdict is Verdict.CANCEL:
        return Ending(Run.Status.CANCELLED, "cancelled", "Cancelled; what was measured until then is kept.")
    return _own_end(instrument)


def _own_end(instrument: Instrument) -> Ending:
    """The instrument's own word on how it ended; its exit status when it left none."""
    said = instrument.end or {}
    code, text = str(said.get("code") or ""), str(said.get("text") or "")
    match instrument.exit_status:
        case 0 | 4 if code in ("", "invalid"):
            return Ending(Run.Status.FINISHED)  # the summary says why
        case 4:
            return Ending(Run.Status.FINISHED, code, text)
        case 130:
            return Ending(Run.Status.LOST, "interrupted", text or "Something stopped the instrument from outside.")
        case 2 | 3 if said:
            return Ending(Run.Status.FAILED, code, text)
        case status:
            tail = instrument.stderr_tail
            how = f"by signal {-status}" if status and status < 0 else f"with status {status}"
            return Ending(
                Run.Status.FAILED,
                "instrument_crashed",
                f"The instrument ended {how}. What it had measured is kept." + (f"\n{tail}" if tail else ""),
            )


def _host_fault(error: Exception) -> Ending:
    fix = f" Check the space and rights of {settings.VAR_DIR}, then start a new run."
    return Ending(
        Run.Status.FAILED,
        "load_host",
        f"The load host could not carry out the run: {error}." + (fix if isinstance(error, OSError) else ""),
    )


def _store(run: Run, ending: Ending, directory: Path, secret: str, patience_s: float) -> None:
    """Ends the run with what lies in ``directory``, and waits for a database that is away."""
    results = ingest.collect(run, directory, secret)
    if ending.status is Run.Status.FINISHED and results.summary is None:
        ending = Ending(Run.Status.FAILED, ending.code or "no_summary", ending.text or "It left no summary.")
    ending = Ending(ending.status, ending.code, plain.text(ending.text, secret))
    if not _patiently(lambda: ingest.close(run, ending, results), patience_s):
        logger.warning("run %s was no longer this worker's to end", run.pk)


def _patiently(act: Callable[[], bool], patience_s: float) -> bool:
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
