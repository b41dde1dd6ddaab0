"""The results of several load hosts as those of one run."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path

from django.core.files.storage import default_storage

from observatory.runs import clocks, spool
from observatory.runs.models import Run, Shard
from runners.merge import Part, merge
from runners.spec import RunSpec

logger = logging.getLogger(__name__)


def merged(run: Run, directory: Path, first_fault: dict[str, str] | None = None) -> Path:
    """The folder with the results of all load hosts as one. The first one's own files are in ``directory``/0, those of
    the others are fetched beside it. Where nothing can be merged it is the first one's own folder.
    """
    out, own = directory / "merged", directory / "0"
    try:
        out.mkdir(parents=True, exist_ok=True)
        first = _clock_of_first(run)
        parts = [_part(shard, directory / str(shard.index), first) for shard in run.shards.select_related("run")]
        if not any(part.fault for part in parts):
            parts[0] = replace(parts[0], fault=first_fault)
        summary = merge(RunSpec.from_json(run.spec), parts, out)
    except Exception:  # a shard's files cut off anywhere must not keep a run from ending
        logger.exception("run %s: the rows of its load hosts could not be merged", run.pk)
        return own
    return out if summary["stages"] else own


def _clock_of_first(run: Run) -> clocks.Clock | None:
    first = run.shards.get(index=0)
    if first.clock_offset_ns is None:
        return None
    drift_ns = 0
    try:
        drift_ns = abs(clocks.compare().offset_ns - first.clock_offset_ns)
    except clocks.ClockError:
        logger.warning("the clocks could not be compared again", exc_info=True)
    return clocks.Clock(first.clock_offset_ns, (first.clock_bound_ns or 0) + drift_ns)


def _part(shard: Shard, folder: Path, first: clocks.Clock | None) -> Part:
    offset_ns = bound_ns = 0
    if shard.index:
        folder.mkdir(exist_ok=True)
        _fetch(shard, folder)
        if first and shard.clock_offset_ns is not None:
            offset_ns = shard.clock_offset_ns - first.offset_ns
            bound_ns = first.bound_ns + (shard.clock_bound_ns or 0) + abs(shard.clock_drift_ns or 0)
    return Part(shard.index, folder, shard.host, offset_ns, bound_ns, fault(shard) if shard.index else None)


def _fetch(shard: Shard, folder: Path) -> None:
    """What the host put down at its end, else the rows that it had stored on the way."""
    if shard.summary is not None:
        (folder / "summary.json").write_text(json.dumps(shard.summary, allow_nan=False))
    if not shard.requests_file:
        spool.fetch(shard.run, folder, shard.index)
        return
    with default_storage.open(str(shard.requests_file.name)) as stored, (folder / "requests.parquet").open("wb") as own:
        shutil.copyfileobj(stored, own)


def fault(shard: Shard) -> dict[str, str] | None:
    """Why a shard did not come to its own end; one that was asked to stop has no fault of its own."""
    ended_well = shard.status == Shard.Status.ENDED and (shard.ending == Run.Status.FINISHED or shard.stop)
    cancelled = shard.ending == Run.Status.CANCELLED
    if shard.status == Shard.Status.MEASURING or ended_well or cancelled:
        return None
    what = shard.text or "no load host took it"
    return {"code": shard.code or "shard_lost", "text": f"Load host {shard.host or '(none)'}: {what}"}
