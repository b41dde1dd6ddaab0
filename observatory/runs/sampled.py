"""The worker on a machine that serves: it samples power for a run that a load host drives."""

import logging
import os
import shutil
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from django.conf import settings
from django.db import InterfaceError, OperationalError, connection

from observatory.runs import clocks, ingest, patience, samplings, spool, work
from observatory.runs.models import Sampling
from runners.power.sampler import STOP_TIMEOUT_S, Sampler
from runners.spec import RunSpec

logger = logging.getLogger(__name__)

_RENEW_S = 0.5


def execute(sampling_id: int) -> None:
    """Samples until the load host has what it needs or is gone; does nothing when nobody waits for it any more."""
    work.clear()
    sampling = samplings.join(sampling_id, f"{socket.gethostname()}:{os.getpid()}")
    if sampling is None:
        return
    directory = work.power_folder(sampling.run, sampling.host)
    try:
        directory.mkdir(parents=True, mode=0o700)
        _sample(sampling, directory)
    except Exception as error:
        logger.exception("%s could not be sampled", sampling)
        _fail(sampling, "power_worker_failed", f"its power worker could not sample: {error}")
    except BaseException:
        _fail(sampling, "power_worker_lost", "its power worker was stopped while it sampled")
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _sample(sampling: Sampling, directory: Path) -> None:
    asked = replace(RunSpec.from_json(sampling.run.spec).power, hosts=())
    sampler = Sampler.start(asked, directory)
    try:
        samplings.ready(sampling, clocks.compare())
        _until_told(sampling, sampler)
        with suppress(OperationalError, InterfaceError):
            samplings.settle(sampling, STOP_TIMEOUT_S)
    finally:
        sampler.stop()
    _put_down(sampling, sampler, directory)


def _until_told(sampling: Sampling, sampler: Sampler) -> None:
    """A load host whose database is away is heard again when that is back; after a lease it counts as gone."""
    heard_s = time.monotonic()
    while time.monotonic() - heard_s < settings.RUN_LEASE_S:
        try:
            if not samplings.renew(sampling, sampler.latest_power_w()):
                return
            heard_s = time.monotonic()
        except (OperationalError, InterfaceError):
            connection.close()
        time.sleep(_RENEW_S)


def _put_down(sampling: Sampling, sampler: Sampler, directory: Path) -> None:
    """Samples and account go where the load host finds them, and away again when it does not want them any more."""
    rows = ingest.raw_rows(directory, "power")
    stored = ingest.store(spool.folder(sampling.run), rows, f"power-{sampling.host}.parquet", "")
    results = {"power_file": stored, "description": sampler.describe(), "end_offset_ns": _offset_ns()}
    if not patience.patiently(lambda: samplings.end(sampling, **results), settings.RUN_LEASE_S):
        logger.warning("%s was no longer this worker's", sampling)
        ingest.remove(stored)


def _offset_ns() -> int | None:
    try:
        return clocks.compare().offset_ns
    except clocks.ClockError:
        logger.warning("the clocks could not be compared again", exc_info=True)
        return None


def _fail(sampling: Sampling, code: str, text: str) -> None:
    try:
        samplings.fail(sampling, code, text)
    except (OperationalError, InterfaceError):
        logger.warning("%s: the database is away; its lease will end", sampling)
