"""``python -m runners power``: what can be measured on this machine, by which instrument, and how many watts now."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from runners.meters import EXAMPLES
from runners.power.devices import SourceError
from runners.power.options import add_power, power_of
from runners.power.samples import Row
from runners.power.sources import SOURCES, Archive, Source, describe, open_sources
from runners.spec import Power

_WATCH_S = 1.2
_ARCHIVE_NS = 120_000_000_000
_COLUMNS = ("layer", "name", "power_w", "mark", "update_ms", "reading")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_power(parser, "--source")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when something can be measured or modelled, 2 for a source that cannot be used as asked, 3 when
    nothing can.
    """
    try:
        found = describe_power(power_of(args))
    except SourceError as error:
        print(error, file=sys.stderr)
        return 2
    if not args.power:
        found["others"] = others(power_of(args), found)
    print(json.dumps(found, indent=1) if args.json else _text(found))
    return 0 if found["devices"] else 3


def describe_power(power: Power) -> dict[str, Any]:
    """The sampler's account of itself, each device with its ``power_w`` of now (None when not known). Takes about a
    second, because a counter tells power only by its change. Raises SourceError as ``open_sources`` does.
    """
    sources = open_sources(power)
    watts: dict[str, float | None] = {}
    end_s = time.monotonic() + _WATCH_S
    try:
        while time.monotonic() < end_s and any(source.devices() for source in sources):
            for row in (row for source in sources for row in source.read()):
                watts[row["device"]] = _row_w(row)
            time.sleep(0.2)
        watts |= _archived_w(sources)
        found = describe(sources)
    finally:
        for source in sources:
            source.close()
    for device in found["devices"]:
        device["power_w"] = watts.get(device["id"])
    return found


def others(power: Power, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The instruments that ``auto`` did not take: {name, serves, why}. Why it serves nothing, or how to ask for it."""
    used = {device["source"] for device in found["devices"]}
    rows = []
    for name, open_source in SOURCES.items():
        if name in used:
            continue
        source = open_source(power)
        serves = [device.name for device in source.devices()]
        why = f"not needed; to use it: --source {name}" if serves else " ".join(note.text for note in source.notes)
        source.close()
        rows.append({"name": name, "serves": serves, "why": why})
    return rows + [{"name": name, "serves": [], "why": f"--source '{line}'"} for name, line in EXAMPLES.items()]


def _row_w(row: Row) -> float | None:
    power_mw = row.get("power_mw", row.get("power_instant_mw"))
    return power_mw / 1e3 if power_mw is not None else None


def _archived_w(sources: Sequence[Source]) -> dict[str, float | None]:
    """The newest that archives have of the last minutes."""
    now_ns, watts = time.monotonic_ns(), dict[str, float | None]()
    for source in sources:
        if isinstance(source, Archive) and source.devices():
            try:
                rows = source.between(now_ns - _ARCHIVE_NS, now_ns)
            except SourceError:
                continue
            watts |= {row["device"]: _row_w(row) for row in rows}
    return watts


def _text(found: dict[str, Any]) -> str:
    lines = [[_cell(device, column) for column in _COLUMNS] for device in found["devices"]]
    table = [["layer", "device", "W now", "mark", "update", "instrument"], *lines]
    widths = [max(len(line[i]) for line in table) for i in range(len(_COLUMNS) - 1)]
    rows = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in table
    ]
    notes = [f"- {note['text']}" for note in found["notes"]]
    head = rows if lines else ["Nothing to measure power with was found here."]
    text = [*head, "", *notes] if notes else head
    return "\n".join([*text, "", "Other instruments:", *_others(found["others"])] if "others" in found else text)


def _others(rows: list[dict[str, Any]]) -> list[str]:
    width = max(len(row["name"]) for row in rows)
    return [f"{row['name'].ljust(width)}  {', '.join(row['serves']) or '–'}  {row['why']}" for row in rows]


def _cell(device: dict[str, Any], column: str) -> str:
    value = device[column]
    if column == "power_w":
        return "–" if value is None else f"{value:.1f}"
    return f"{value:.0f} ms" if column == "update_ms" else str(value)
