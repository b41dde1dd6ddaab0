"""What power is to be read by, as options of a command line."""

import argparse
from collections.abc import Sequence
from typing import Any

from runners.meters import EXAMPLES, Meter, complaint, meter_text, parse_meter
from runners.spec import Power

HELP = (
    "where power is read; repeatable. auto (default): NVIDIA, AMD and Intel GPUs by their drivers, the CPU by RAPL "
    "or Grace's meters, else a model of it. none, nvml, amd, xpu, rapl, hwmon, ipmi, estimate: these alone. Others "
    f"have to be told where they are: {'  '.join(EXAMPLES.values())}"
)


def add_power(parser: Any, option: str) -> None:
    """``option`` is what sources are given by, such as --power."""
    parser.add_argument(option, dest="power", action="append", type=_source, metavar="SOURCE", help=HELP)
    parser.add_argument("--cpu-idle-w", type=float, help="watts of all CPUs when idle, for the modelled source")
    parser.add_argument("--cpu-max-w", type=float, help="watts of all CPUs at full use, for the modelled source")


def _source(text: str) -> str | Meter:
    """A name, or an instrument with its place."""
    if ":" not in text:
        return text
    try:
        meter = parse_meter(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if found := complaint(meter):
        raise argparse.ArgumentTypeError(f"{meter.kind}: {found[0]}: {found[1]}")
    return meter


def power_of(args: argparse.Namespace, idle_s: float = Power.idle_s) -> Power:
    """Only instruments with a place means those alone."""
    given: list[str | Meter] = args.power or ["auto"]
    names = [one for one in given if isinstance(one, str)]
    return Power(
        source="+".join(names) or "none",
        idle_s=idle_s,
        cpu_idle_w=args.cpu_idle_w,
        cpu_max_w=args.cpu_max_w,
        meters=tuple(one for one in given if not isinstance(one, str)),
    )


def arguments_of(power: Power, option: str) -> Sequence[tuple[str, object]]:
    """(option, value) pairs that ``power_of`` reads as the same; a value of None is not given."""
    names = [] if power.source == "none" and power.meters else power.source.split("+")
    return [
        *((option, name) for name in names),
        *((option, meter_text(meter)) for meter in power.meters),
        ("--cpu-idle-w", power.cpu_idle_w),
        ("--cpu-max-w", power.cpu_max_w),
    ]
