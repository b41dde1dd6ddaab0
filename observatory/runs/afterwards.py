"""Power that others kept, put to a run that has ended: a log of the vendor's tool, or what Prometheus knows."""

import tempfile
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.db import transaction
from django.db.models.fields.files import FieldFile

from observatory.runs import ingest, spool
from observatory.runs.models import Run
from runners.backfill import filled
from runners.meters import Meter, SmiLog, complaint
from runners.power.devices import SourceError
from runners.power.samples import SCHEMA
from runners.spec import Power

MOST_LOG_BYTES = 64 << 20


class NoPower(Exception):
    """Nothing was changed. ``field`` of the meter is what to change, where it is known."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field


def add_log(run: Run, chunks: Iterable[bytes], zone: str) -> None:
    """A CSV that nvidia-smi wrote, its times local to ``zone``. Raises NoPower."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as log:
        size = 0
        for chunk in chunks:
            size += len(chunk)
            if size > MOST_LOG_BYTES:
                raise NoPower(f"The log has more than {MOST_LOG_BYTES >> 20} MiB: cut it to the run's time.", "file")
            log.write(chunk)
        log.flush()
        try:
            add(run, SmiLog(log.name, zone))
        except NoPower as error:
            raise NoPower(str(error).replace(log.name, "the log"), error.field) from None


def add(run: Run, meter: Meter) -> None:
    """Counts the run's energy anew with what ``meter`` knows of its time; the rest stays. Raises NoPower."""
    if found := complaint(meter):
        raise NoPower(f"{found[0]}: {found[1]}", found[0])
    rows = _table(run.requests_file)
    if not run.ended or run.summary is None or rows is None:
        raise NoPower("The run keeps no rows to count with, or has not ended: choose one that was measured.")
    samples = _table(run.power_file)
    try:
        power, summary = filled(
            rows, SCHEMA.empty_table() if samples is None else samples, run.summary, Power("none", meters=(meter,))
        )
    except SourceError as error:
        raise NoPower(f"There is no power for this run: {error}.") from None
    _store(run, power, summary)


def _table(file: FieldFile) -> pa.Table | None:
    if not file:
        return None
    try:
        with file.open("rb") as stored:
            return pq.read_table(stored)
    except (OSError, pa.ArrowException):
        return None


def _store(run: Run, power: pa.Table, summary: dict[str, Any]) -> None:
    """In one step; a run that others changed meanwhile is left as it is."""
    before = run.power_file.name or ""
    stored = ingest.store(spool.folder(run), power, "power.parquet", "")
    with transaction.atomic():
        same = Run.objects.filter(pk=run.pk, power_file=before)
        changed = same.update(power_file=stored, summary=summary)
        if changed:
            ingest.store_stages(run, summary)
    ingest.remove(before if changed else stored)
    if not changed:
        raise NoPower("Someone else gave this run power at the same time: load the page again.")
    run.refresh_from_db()
