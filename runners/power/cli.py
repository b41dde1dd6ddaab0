"""``python -m runners power``: what can be measured on this machine, by which instrument, and how many watts now."""

import argparse
import json
import sys
import time
from typing import Any

from runners.power.devices import SourceError
from runners.power.sources import SOURCE_NAMES, describe, open_sources
from runners.spec import Power

_WATCH_S = 1.2
_COLUMNS = ("layer", "name", "power_w", "mark", "update_ms", "reading")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--source",
        choices=SOURCE_NAMES,
        default="auto",
        help="auto: NVML for GPUs, RAPL for the host where it can be read, else a model of its CPU (default)",
    )
    parser.add_argument("--cpu-idle-w", type=float, help="watts of all CPUs when idle, for the modelled source")
    parser.add_argument("--cpu-max-w", type=float, help="watts of all CPUs at full use, for the modelled source")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    """Exit status 0 when something can be measured or modelled, 2 for a source that cannot be used as asked, 3 when
    nothing can.
    """
    try:
        found = describe_power(Power(source=args.source, cpu_idle_w=args.cpu_idle_w, cpu_max_w=args.cpu_max_w))
    except SourceError as error:
        print(error, file=sys.stderr)
        return 2
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
                power_mw = row.get("power_mw", row.get("power_instant_mw"))
                watts[row["device"]] = power_mw / 1e3 if power_mw is not None else None
            time.sleep(0.2)
        found = describe(sources)
    finally:
        for source in sources:
            source.close()
    for device in found["devices"]:
        device["power_w"] = watts.get(device["id"])
    return found


def _text(found: dict[str, Any]) -> str:
    lines = [[_cell(device, column) for column in _COLUMNS] for device in found["devices"]]
    table = [["layer", "device", "W now", "mark", "update", "instrument"], *lines]
    widths = [max(len(line[i]) for line in table) for i in range(len(_COLUMNS) - 1)]
    rows = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]) for line in table
    ]
    notes = [f"- {note['text']}" for note in found["notes"]]
    head = rows if lines else ["Nothing to measure power with was found here."]
    return "\n".join([*head, "", *notes] if notes else head)


def _cell(device: dict[str, Any], column: str) -> str:
    value = device[column]
    if column == "power_w":
        return "–" if value is None else f"{value:.1f}"
    return f"{value:.0f} ms" if column == "update_ms" else str(value)
