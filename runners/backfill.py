"""Power for a run that has ended, from what Prometheus kept or nvidia-smi wrote meanwhile."""

import argparse
import copy
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runners.load.energy_use import add_medians
from runners.load.levels import by_level
from runners.load.summary import plans_of, summarise_stage
from runners.metrics import Mark
from runners.power.devices import SourceError, weakest
from runners.power.options import add_power, power_of
from runners.power.samples import SCHEMA, Row
from runners.power.sources import Archive, describe, open_sources
from runners.results import energies, ledgers, write_results
from runners.spec import Power, RunSpec

_ENERGY_KEYS = ("power_w", "wh_per_query", "j_per_output_token", "j_per_total_token")
#: Asked for on both sides of the measured time, so that slow instruments bracket it.
_MARGIN_NS = 120_000_000_000


def fill(folder: Path, power: Power) -> dict[str, Any]:
    """Adds power to the results in ``folder`` and counts their energy anew; returns the new summary.

    Both files are replaced when everything is counted, not before. Raises SourceError when there is no power for that
    time or the folder holds no results, OSError when they cannot be written.
    """
    try:
        summary = orjson.loads((folder / "summary.json").read_bytes())
        rows, samples = (pq.read_table(folder / f"{name}.parquet") for name in ("requests", "power"))
    except (OSError, orjson.JSONDecodeError, pa.ArrowInvalid) as error:
        raise SourceError(f"{folder} holds no results of a run that has ended: {error}") from None
    samples, summary = with_power(rows, samples, summary, power)
    draft = folder / "filling"
    draft.mkdir(exist_ok=True)
    write_results(draft, {"power": samples}, summary)
    for name in ("power.parquet", "summary.json"):
        (draft / name).replace(folder / name)
    draft.rmdir()
    return summary


def with_power(
    rows: pa.Table, samples: pa.Table, summary: Mapping[str, Any], power: Power
) -> tuple[pa.Table, dict[str, Any]]:
    """Samples and summary of a run with the devices that the archives of ``power`` know for its time. Devices that were
    sampled in the run stay, but for those that are told again. Raises SourceError.
    """
    added, account = _archived(summary, power)
    filled = copy.deepcopy(dict(summary))
    new = {device["id"] for device in account["devices"]}
    kept = samples.filter(pc.invert(pc.is_in(samples["device"], pa.array(sorted(new), pa.string()))))
    samples = pa.concat_tables([kept.cast(SCHEMA), pa.Table.from_pylist(added, schema=SCHEMA)])
    filled["power"] = _joined(filled["power"], account, new)
    spec = RunSpec.from_json(filled["spec"])
    ledger_of = ledgers(samples, filled["power"], spec.account)
    for plan in plans_of(rows, spec):
        again = summarise_stage(rows, plan, spec, ledger_of=ledger_of)
        for stage in (stage for stage in filled["stages"] if stage["index"] == plan.index):
            stage["energy"] = again["energy"]
            known = {key: again["metrics"][key] for key in _ENERGY_KEYS if key in again["metrics"]}
            gone = (*_ENERGY_KEYS, "wh_per_query_median")
            stage["metrics"] = {key: value for key, value in stage["metrics"].items() if key not in gone} | known
    energy_of = energies(samples, filled["power"])
    filled["attribution"] = add_medians(rows, filled["stages"], energy_of, filled["power"]["idle_w"])
    filled["levels"] = by_level(filled["stages"])
    return samples, filled


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
    devices = [device for device in old["devices"] if device["id"] not in new] + added["devices"]
    return {
        **old,
        "source": "+".join(dict.fromkeys(device["source"] for device in devices)) or "none",
        "mark": weakest(Mark(device["mark"]) for device in devices),
        "devices": devices,
        "notes": [*old["notes"], *added["notes"]],
    }


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
