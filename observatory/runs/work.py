"""Where a worker puts what it measures until that is stored, what it needs there, and whether it may measure at all."""

import hashlib
import json
import logging
import shutil
from pathlib import Path
from typing import Any

from django.conf import settings

from observatory.benchmarks.models import WorkloadFile
from observatory.catalog import wire
from observatory.runs.ingest import Ending
from observatory.runs.models import Run

logger = logging.getLogger(__name__)

MOVED = Ending(
    Run.Status.FAILED,
    "endpoint_changed",
    "The endpoint has changed since the run was queued: start it again. Nothing was sent.",
)


#: In the folder of a run: what the specification names, and nothing that was measured.
FILES = "files"


class Missing(Exception):
    """A file that the run needs is not there."""

    @property
    def ending(self) -> Ending:
        words = f"{self} Nothing was sent. Upload the file again, or name another one, then start a new run."
        return Ending(Run.Status.FAILED, "workload_file", words)


def moved(run: Run) -> bool:
    """Whether the endpoint has another address, proxy or authority by now: its key is for these and must not reach
    the old ones.
    """
    now = wire.target(run.endpoint)
    return any(run.spec["target"].get(name, "") != now[name] for name in ("url", "proxy", "ca_file"))


def furnish(run: Run, directory: Path, **changes: Any) -> Path:
    """Puts everything that the instrument reads into ``directory``, for its owner's eyes only, and returns the path of
    the specification. Raises Missing, OSError.
    """
    files = directory / FILES
    files.mkdir(mode=0o700)
    wire.write_files(run.endpoint, files)
    for name, sha256 in run.spec.get("files", {}).items():
        _fetch(name, sha256, files / name)
    spec = directory / "spec.json"
    spec.write_text(json.dumps(run.spec | changes, allow_nan=False))
    return spec


def _fetch(name: str, sha256: str, path: Path) -> None:
    stored = WorkloadFile.objects.filter(sha256=sha256).first()
    if stored is None:
        raise Missing(f"The workload file {name} was deleted since the run was queued.")
    digest = hashlib.sha256()
    try:
        with stored.file.open("rb") as source, path.open("xb") as copy:
            for chunk in source.chunks():
                copy.write(chunk)
                digest.update(chunk)
    except Exception as error:  # each kind of storage has errors of its own
        logger.exception("workload file %s could not be fetched", name)
        raise Missing(f"The workload file {name} could not be read from storage ({type(error).__name__}).") from None
    if digest.hexdigest() != sha256:
        raise Missing(f"The workload file {name} in storage is not what was uploaded: its SHA-256 differs.")


def _all() -> Path:
    return Path(settings.VAR_DIR) / "work"


def folder(run: Run, shard: int = 0) -> Path:
    return _all() / (f"{run.pk}-{run.epoch}" + (f"-{shard}" if shard else ""))


def power_folder(run: Run, host: str) -> Path:
    """Of the worker that samples power on ``host``, which may be a load host as well."""
    return _all() / f"{run.pk}-{run.epoch}-power-{host}"


def clear() -> None:
    """Removes the folders that killed workers of this host left behind: those of runs that run no more."""
    running = Run.objects.filter(status=Run.Status.RUNNING).values_list("pk", "epoch")
    kept = {f"{pk}-{epoch}" for pk, epoch in running}
    for left in _all().glob("*-*"):
        if "-".join(left.name.split("-")[:2]) not in kept:
            logger.warning("%s is removed: its worker was killed, and its run has ended", left)
            shutil.rmtree(left, ignore_errors=True)
