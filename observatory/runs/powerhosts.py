"""The power workers of a run's machines, seen from the load host: called before it, stopped after it, their samples put
to its results. Whatever becomes of them spoils the energy at most, never the run.
"""

import logging
import time
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from django.conf import settings
from django.core.files.storage import default_storage
from django.db import InterfaceError, OperationalError, connection

from observatory.runs import clocks, dispatch, ingest, samplings, states
from observatory.runs.clocks import Clock
from observatory.runs.follow import CANCELLED, lease_lost
from observatory.runs.ingest import Ending
from observatory.runs.models import Run, Sampling
from observatory.runs.watch import Renew
from runners.energies import with_power
from runners.load.judgement import reason
from runners.power.placement import summed
from runners.power.sampler import STOP_TIMEOUT_S
from runners.power.samples import SCHEMA
from runners.results import write_results

logger = logging.getLogger(__name__)

_LOOK_S = 0.3
_RENEW_S = 1.0
#: Between stop and the samples in storage.
_PUT_DOWN_S = STOP_TIMEOUT_S + 30.0
#: Clocks that may differ by more say nothing about a window.
_MOST_BOUND_NS = 1_000_000_000


class PowerHosts:
    """Held by the worker that claimed the run: ``gather``, measure with ``renew``, ``close``, then ``put``."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._names: list[str] = run.spec.get("power", {}).get("hosts") or []  # an evaluation samples nothing
        self._before: Clock | None = None
        self._after: Clock | None = None

    def gather(self) -> Ending | None:
        """Waits until every worker samples, for RUN_POWER_WAIT_S at most. An ending when the run must not begin."""
        if not self._names:
            return None
        self._before = _clock()
        for row in samplings.create(self._run, self._names):
            dispatch.call_power(row, settings.RUN_POWER_WAIT_S)
        began_s = renewed_s = time.monotonic()
        while not self._ready() and time.monotonic() - began_s < settings.RUN_POWER_WAIT_S:
            if time.monotonic() - renewed_s >= _RENEW_S:
                renewed_s = time.monotonic()
                hold = states.renew(self._run, {"phase": "power"}, [])
                if not hold.mine or hold.cancel:
                    return CANCELLED if hold.mine else lease_lost()
            time.sleep(_LOOK_S)
        samplings.miss(self._run, _missing())
        return None

    def _ready(self) -> bool:
        samplings.lose_silent(self._run)
        over = (Sampling.Status.ENDED, Sampling.Status.LOST)
        return not self._run.samplings.filter(clock_offset_ns=None).exclude(status__in=over).exists()

    def renewing(self, renew: Renew) -> Renew:
        """``renew`` with the power that the workers read in the progress."""
        if not self._names:
            return renew

        def with_watts(progress: dict[str, Any], series: list[dict[str, Any]]) -> states.Hold:
            watts = list(self._run.samplings.values_list("power_w", flat=True))
            known = [value for value in watts if value is not None]
            power_w = sum(known) if watts and len(known) == len(watts) else None
            if series:
                series[-1]["power_w"] = power_w
            return renew(progress | {"power_w": power_w} if progress else progress, series)

        return with_watts

    def close(self) -> None:
        """Has them stop, and waits until their samples are in storage or they are lost."""
        if not self._names:
            return
        self._after = _clock()
        deadline = time.monotonic() + settings.RUN_LEASE_S + _PUT_DOWN_S
        while time.monotonic() < deadline:
            if self._over():
                return
            time.sleep(_LOOK_S)
        samplings.give_up(self._run)

    def _over(self) -> bool:
        try:
            samplings.stop(self._run)
            samplings.lose_silent(self._run)
            return not self._run.samplings.filter(status=Sampling.Status.SAMPLING).exists()
        except (OperationalError, InterfaceError):
            connection.close()
            return False

    def put(self, directory: Path) -> None:
        """Puts the samples to the summary and the power file in ``directory``, on the clock of this machine."""
        if not self._names or not (directory / "summary.json").exists():
            return
        try:
            _put(list(self._run.samplings.all()), directory, self._before, self._after)
        except Exception:  # samples cut off anywhere must never keep a run from ending
            logger.exception("run %s: the samples of its power workers could not be put to it", self._run.pk)


def _clock() -> Clock | None:
    try:
        return clocks.compare()
    except clocks.ClockError:
        logger.warning("the clock of this load host could not be compared", exc_info=True)
        return None


def _missing() -> str:
    return (
        f"no power worker answered within {settings.RUN_POWER_WAIT_S:g} s; start one on that machine: "
        "celery -A observatory worker -Q power.NAME"
    )


def _put(rows: list[Sampling], directory: Path, before: Clock | None, after: Clock | None) -> None:
    summary = orjson.loads((directory / "summary.json").read_bytes())
    requests = ingest.raw_rows(directory, "requests")
    own = ingest.raw_rows(directory, "power")
    parts = [_Part(row, before, after) for row in rows]
    faults = [part.fault for part in parts if part.fault]
    notes = [note for part in parts for note in part.notes]
    power = {
        **summary["power"],
        **summed([device for part in parts for device in part.devices]),
        "fault": faults[0] if faults else None,
        "notes": [*faults, *notes],
        "sampled_by": [part.to_json() for part in parts],
    }
    samples = pa.concat_tables([part.samples() for part in parts] + ([own.columns()] if own is not None else []))
    assert requests is not None  # noqa: S101
    made = with_power(summary, requests, samples, power)
    write_results(directory, {"power": samples}, made)


class _Part:
    """What one worker sampled, on the clock of the load host."""

    def __init__(self, row: Sampling, before: Clock | None, after: Clock | None) -> None:
        self.row = row
        self.shift_ns, self.bound_ns = _shift(row, before, after)
        self.fault = _fault(row, self.bound_ns)
        description = row.description or {}
        self.devices = [self._device(device) for device in description.get("devices", [])]
        self.notes = [
            reason(note["code"], f"{row.host}: {note['text']}")
            for note in description.get("notes", [])
            if note["code"] != "sampled_host"
        ]

    def _name(self, device: str) -> str:
        return f"{self.row.host}/{device}"

    def _device(self, device: dict[str, Any]) -> dict[str, Any]:
        bound_ms = (self.bound_ns or 0) / 1e6
        host = device["host"] or self.row.host
        return device | {"id": self._name(device["id"]), "host": host, "clock_bound_ms": bound_ms}

    def samples(self) -> pa.Table:
        if not self.row.power_file or self.shift_ns is None:
            return SCHEMA.empty_table()
        with default_storage.open(str(self.row.power_file.name)) as file:
            table = pq.read_table(file)
        moved = table.set_column(0, SCHEMA.field("t_ns"), pc.add(table["t_ns"], self.shift_ns))
        names = pa.array([self._name(device) for device in table["device"].to_pylist()], pa.string())
        return moved.set_column(1, SCHEMA.field("device"), names)

    def to_json(self) -> dict[str, Any]:
        return {
            "host": self.row.host,
            "machine": self.row.owner.rpartition(":")[0],
            "offset_ns": self.shift_ns,
            "bound_ns": self.bound_ns,
            "cpu_share": (self.row.description or {}).get("sampler_cpu_share"),
            "fault": self.fault,
        }


def _shift(row: Sampling, before: Clock | None, after: Clock | None) -> tuple[int | None, int | None]:
    """What added to the worker's stamps gives those of this load host, and what bounds its error: half way between the
    comparisons before and after, with half of their difference in the bound. A step of the broker's own clock is in the
    offsets of both machines and falls out.
    """
    if before is None or row.clock_offset_ns is None:
        return None, None
    first = row.clock_offset_ns - before.offset_ns
    bound_ns = before.bound_ns + (row.clock_bound_ns or 0)
    if after is None or row.end_offset_ns is None:
        return first, bound_ns
    drift_ns = row.end_offset_ns - after.offset_ns - first
    return first + drift_ns // 2, bound_ns + abs(drift_ns) // 2 + 1


def _fault(row: Sampling, bound_ns: int | None) -> dict[str, str] | None:
    """Why the energy of this machine is unknown."""
    lead = f"the energy of the server was not measured: {row.host}:"
    if row.status != Sampling.Status.ENDED:
        return reason(row.code or "power_worker_lost", f"{lead} {row.text or 'its power worker was lost'}")
    if bound_ns is None or bound_ns > _MOST_BOUND_NS:
        words = "its clock and that of the load host could not be compared closely enough; see to the broker's network"
        return reason("clocks_unknown", f"{lead} {words}")
    description = row.description or {}
    if not description.get("devices"):
        why = "; ".join(note["text"] for note in description.get("notes", []))
        return reason("no_power", f"{lead} its power worker found nothing to measure power with. {why}".strip())
    return None
