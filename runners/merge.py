"""From what the shards of a run left to one set of results, as if one process had measured all of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runners import __version__
from runners.energies import add_energy
from runners.load.judgement import Client, reason
from runners.load.plan import fixed_stages
from runners.load.records import SCHEMA, STAMPS, read_spool
from runners.load.rowfiles import ParquetRows, Rows, SpoolRows, TableRows
from runners.load.summary import summarise, summarise_stage
from runners.power.samples import SCHEMA as POWER_SCHEMA
from runners.results import write_results
from runners.server.samples import SCHEMA as SERVER_SCHEMA
from runners.server.summary import ServerSide
from runners.spec import RunSpec

_SCHEMAS = {"power": POWER_SCHEMA, "server": SERVER_SCHEMA}


@dataclass(frozen=True)
class Part:
    """What one shard left in ``folder``.

    ``offset_ns`` added to its stamps gives those of the first shard's clock, to within ``bound_ns``. ``fault`` says why
    it did not reach its end.
    """

    index: int
    folder: Path
    host: str = ""
    offset_ns: int = 0
    bound_ns: int = 0
    fault: dict[str, str] | None = None

    @property
    def name(self) -> str:
        return f"load process {self.index}" + (f" on {self.host}" if self.host else "")

    def summary(self) -> Mapping[str, Any]:
        """Its own; empty where it left none."""
        try:
            found = orjson.loads((self.folder / "summary.json").read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}
        return found if isinstance(found, dict) else {}

    def table(self, name: str) -> pa.Table:
        """The finished file, else every whole batch of the spool, else nothing."""
        parquet, arrow = self.folder / f"{name}.parquet", self.folder / f"{name}.arrow"
        try:
            return pq.read_table(parquet)
        except (OSError, pa.ArrowInvalid):
            return read_spool(arrow, _SCHEMAS[name]) if arrow.exists() else _SCHEMAS[name].empty_table()

    def requests(self) -> Rows:
        """Its rows as it left them."""
        parquet, arrow = self.folder / "requests.parquet", self.folder / "requests.arrow"
        try:
            return ParquetRows(parquet)
        except (OSError, pa.ArrowInvalid):
            return SpoolRows(arrow) if arrow.exists() else TableRows(SCHEMA.empty_table())

    def placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of its own, numbered, on the first shard's clock."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns |= {name: pc.add(columns[name], self.offset_ns) for name in STAMPS if name in columns}
        if "shard" in columns:
            columns["shard"] = pa.array(np.full(batch.num_rows, self.index, dtype=np.int16))
        return pa.RecordBatch.from_pydict(columns, pa.schema([SCHEMA.field(name) for name in columns]))


class AllRows(Rows):
    """The rows of all parts, stage by stage, a few of each part in turn."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = [(part, part.requests()) for part in parts]
        self.schema, self.num_rows = SCHEMA, sum(rows.num_rows for _, rows in self._parts)
        found = (batch["stage"].unique().to_pylist() for _, rows in self._parts for batch in rows.batches(["stage"]))
        self.stages = sorted({stage for stages in found for stage in stages})

    def batches(self, names: Sequence[str] | None = None, stage: int | None = None) -> Iterator[pa.RecordBatch]:
        for one in self.stages if stage is None else [stage]:
            own = (map(part.placed, rows.batches(names or SCHEMA.names, one)) for part, rows in self._parts)
            for together in zip_longest(*own):
                yield from (batch for batch in together if batch is not None)


def merge(spec: RunSpec, parts: Sequence[Part], out: Path) -> dict[str, Any]:
    """Writes the files of docs/result-files.md into ``out`` and returns the summary. ``spec`` is that of the whole.

    A part with a fault makes the run invalid; its rows are kept. Raises OSError.
    """
    spec = replace(spec, shard=replace(spec.shard, index=None))
    summaries = {part.index: part.summary() for part in parts}
    rows = AllRows(parts)
    tables: dict[str, pa.Table] = {
        "power": parts[0].table("power"),
        "server": parts[0].table("server"),
    }
    summary = _summary(spec, parts, summaries, rows, tables)
    write_results(out, {"requests": rows, **tables}, summary)
    return summary


def _summary(
    spec: RunSpec,
    parts: Sequence[Part],
    summaries: Mapping[int, Mapping[str, Any]],
    rows: AllRows,
    tables: Mapping[str, pa.Table],
) -> dict[str, Any]:
    facts = _facts(parts, summaries)
    power, account = facts["power"], facts["server"]
    server_of = ServerSide(tables["server"], account).of_stage if account else None
    stages = []
    for plan in fixed_stages(spec):
        if plan.index not in rows.stages:
            continue
        own = {part.index: _stage_of(summaries[part.index], plan.index) for part in parts}
        stage = summarise_stage(
            rows,
            plan,
            spec,
            client=_client(list(own.values())),
            server_of=server_of,
            template_tokens=(facts["workload"] or {}).get("template_tokens"),
        )
        stages.append(_with_shards(stage, parts, own, rows))
    if power:
        facts |= add_energy(stages, rows, tables["power"], power, spec)
    faults = [part.fault for part in parts if part.fault]
    summary = summarise(rows, spec, stages, reasons=faults, runner_version=__version__, **facts)
    if faults:
        summary["valid"] = False
    return summary


def _facts(parts: Sequence[Part], summaries: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """The first shard's account of host, target, power and server; the next one's where that left none."""
    known = [found for found in summaries.values() if found]
    first = known[0] if known else {}
    names = ("clock_anchor", "started_at", "environment", "target", "workload", "power", "server")
    return {
        **{name: first.get(name) for name in names},
        "clock": "kernel" if known and all(found["clock"] == "kernel" for found in known) else "user",
        "ended_at": max((found["ended_at"] for found in known), default=datetime.now(UTC).isoformat()),
        "shards": [
            {
                "index": part.index,
                "host": part.host or (summaries[part.index].get("environment") or {}).get("host", ""),
                "offset_ns": part.offset_ns,
                "bound_ns": part.bound_ns,
                "fault": part.fault,
                "environment": summaries[part.index].get("environment"),
            }
            for part in parts
        ],
    }


def _stage_of(summary: Mapping[str, Any], index: int) -> dict[str, Any] | None:
    return next((stage for stage in summary.get("stages") or [] if stage["index"] == index), None)


def _client(stages: Sequence[Mapping[str, Any] | None]) -> Client | None:
    """All load generators as one: the busiest one's share, the CPU time of all."""
    known = [stage["client"] for stage in stages if stage and stage.get("client")]
    if not known:
        return None

    def values(name: str) -> list[Any]:
        return [client[name] for client in known if client.get(name) is not None]

    return Client(
        clock="kernel" if all(client["clock"] == "kernel" for client in known) else "user",
        busy_share=max(values("busy_share"), default=None),
        cpu_s=sum(values("cpu_s")),
        scheduled="realtime" if all(client["scheduled"] == "realtime" for client in known) else "usual",
        waited_share=max(values("waited_share"), default=None),
        read_delay_p99_ms=max(values("read_delay_p99_ms"), default=None),
        replaced_stamps=sum(values("replaced_stamps")),
        capped=any(values("capped")),
        stop_reason=next(filter(None, values("stop_reason")), ""),
    )


def _with_shards(
    stage: dict[str, Any], parts: Sequence[Part], own: Mapping[int, dict[str, Any] | None], rows: Rows
) -> dict[str, Any]:
    """The stage with each shard's own verdict; one that was limited limits the whole."""
    names = ("verdict", "reasons", "planned", "ok", "failed", "cancelled", "not_sent", "client")
    busy = {part.index: (part, found) for part in parts if (found := own[part.index]) and found["planned"]}
    stage["shards"] = [{"index": index, **{name: found[name] for name in names}} for index, (_, found) in busy.items()]
    stage["start_spread_ms"] = _start_spread_ms(rows, stage["index"])
    limits = [
        reason(item["code"], f"{part.name}: {item['text']}")
        for part, found in busy.values()
        for item in found["reasons"]
        if item["code"].startswith(("client_", "calibration_"))
    ]
    said = {item["code"] for item in limits}  # a shard's own words know its calibration, those of the whole do not
    stage["reasons"] = [item for item in stage["reasons"] if item["code"] not in said] + limits
    if stage["verdict"] == "ok" and any(found["verdict"] == "client_limited" for _, found in busy.values()):
        stage["verdict"] = "client_limited"
    calibrations = [found["client"]["calibration"] for _, found in busy.values() if found["client"].get("calibration")]
    if stage["client"] and calibrations:  # the least exact one speaks for all
        stage["client"]["calibration"] = max(calibrations, key=_mean_error_ms)
    return stage


def _mean_error_ms(calibration: Mapping[str, Any]) -> float:
    return (calibration["event_error_ms"] or {}).get("mean") or 0.0


def _start_spread_ms(rows: Rows, stage: int) -> float | None:
    """Between the first send of the first shard and that of the last one."""
    firsts: dict[int, int] = {}
    for batch in rows.batches(["shard", "sent_ns"], stage):
        sent_ns = pc.min(batch["sent_ns"]).as_py()
        if sent_ns is not None:
            shard = batch["shard"][0].as_py()
            firsts[shard] = min(sent_ns, firsts.get(shard, sent_ns))
    return (max(firsts.values()) - min(firsts.values())) / 1e6 if firsts else None
