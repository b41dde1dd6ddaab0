"""Power for a run that has ended, from what Prometheus kept or nvidia-smi wrote meanwhile."""

import argparse
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runners.energies import with_power
from runners.load.rowfiles import ParquetRows, Rows
from runners.power.devices import SourceError
from runners.power.options import add_power, power_of
from runners.power.placement import summed
from runners.power.samples import SCHEMA, Row
from runners.power.sources import Archive, describe, open_sources
from runners.results import write_results
from runners.spec import Power

#: Asked for on both sides of the measured time, so that slow instruments bracket it.
_MARGIN_NS = 120_000_000_000


def fill(folder: Path, power: Power) -> dict[str, Any]:
    """Adds power to the results in ``folder`` and counts their energy anew; returns the new summary.

    Both files are replaced when everything is counted, not before. Raises SourceError when there is no power for that
    time or the folder holds no results, OSError when they cannot be written.
    """
    try:
        summary = orjson.loads((folder / "summary.json").read_bytes())
        rows, samples = ParquetRows(folder / "requests.parquet"), pq.read_table(folder / "power.parquet")
    except (OSError, orjson.JSONDecodeError, pa.ArrowInvalid) as error:
        raise SourceError(f"{folder} holds no results of a run that has ended: {error}") from None
    samples, summary = filled(rows, samples, summary, power)
    draft = folder / "filling"
    draft.mkdir(exist_ok=True)
    write_results(draft, {"power": samples}, summary)
    for name in ("power.parquet", "summary.json"):
        (draft / name).replace(folder / name)
    draft.rmdir()
    return summary


def filled(
    rows: Rows | pa.Table, samples: pa.Table, summary: Mapping[str, Any], power: Power
) -> tuple[pa.Table, dict[str, Any]]:
    """Samples and summary of a run with the devices that the archives of ``power`` know for its time. Devices that were
    sampled in the run stay, but for those that are told again. What the sampling lacked counts as told now. Raises
    SourceError.
    """
    added, account = _archived(summary, power)
    new = {device["id"] for device in account["devices"]}
    kept = [device for device in pc.unique(samples["device"]).to_pylist() if not _told_again(device, new)]
    samples = samples.filter(pc.is_in(samples["device"], pa.array(kept, pa.string())))
    samples = pa.concat_tables([samples.cast(SCHEMA), pa.Table.from_pylist(added, schema=SCHEMA)])
    return samples, with_power(dict(summary), rows, samples, _joined(summary["power"], account, new))


def _told_again(device: str, new: set[str]) -> bool:
    """``device`` may stand behind the name of the machine that sampled it."""
    return device in new or device.partition("/")[2] in new


def _archived(summary: Mapping[str, Any], power: Power) -> tuple[list[Row], dict[str, Any]]:
    windows = [stage["window"] for stage in summary["stages"] if stage["window"]]
    if not windows:
        raise SourceError("the run has no measured time to be filled in: none of its stages got an answer")
    anchor = summary["clock_anchor"]
    since_1970_ns = int(datetime.fromisoformat(anchor["utc"]).timestamp() * 1e6) * 1000
    sources = open_sources(power, since_1970_ns - anchor["monotonic_ns"])
    start_ns = min(window["start_ns"] for window in windows) - _MARGIN_NS
    end_ns = max(window["end_ns"] for window in windows) + _MARGIN_NS
    rows: list[Row] = []
    try:
        for source in sources:
            if not isinstance(source, Archive):
                raise SourceError(f"{source.name} tells of now only; a run that has ended takes prometheus or csv")
            rows += source.between(start_ns, end_ns)
        return rows, describe(sources)
    finally:
        for source in sources:
            source.close()


def _joined(old: Mapping[str, Any], added: Mapping[str, Any], new: set[str]) -> dict[str, Any]:
    devices = [device for device in old["devices"] if not _told_again(device["id"], new)] + added["devices"]
    notes = [note for note in old["notes"] if note != old.get("fault")]
    return {**old, **summed(devices), "fault": None, "notes": [*notes, *added["notes"]]}


# command line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", type=Path, metavar="DIR", help="results of a run that has ended")
    add_power(parser, "--power")


def run(args: argparse.Namespace) -> int:
    """0 filled in, 2 when there is no power for that time."""
    try:
        summary = fill(args.folder, power_of(args))
    except (SourceError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for stage in summary["stages"]:
        ledger = stage["energy"] or {"it_j": None, "boundary": "", "reasons": []}
        why = "; ".join(item["text"] for item in ledger["reasons"])
        known = "no number" if ledger["it_j"] is None else f"{ledger['it_j']:.0f} J ({ledger['boundary']})"
        print(f"stage {stage['index']}: {known}{'. ' if why else ''}{why}")
    return 0
