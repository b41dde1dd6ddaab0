"""Kinds of load levels and their names, alike in every table, chart and message."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LoadKind:
    """``long`` and ``short`` take a value; ``axis`` names the axis of a chart."""

    long: str
    short: str
    axis: str


KINDS: dict[str, LoadKind] = {
    "concurrency": LoadKind("concurrency {:g}", "c={:g}", "Concurrency"),
    "rate": LoadKind("{:g} req/s", "{:g}/s", "Arrival rate, requests/s"),
    "speed": LoadKind("{:g} × recorded speed", "{:g}x", "Speed of the replay"),
    "input_tokens": LoadKind("{:g} prompt tokens", "{:g} tok", "Prompt tokens"),
}


def long_name(kind: str, value: float) -> str:
    """Such as "concurrency 4" or "2.5 req/s"."""
    return KINDS[kind].long.format(value)


def short_name(kind: str, value: float) -> str:
    """Such as "c=4" or "2.5/s"."""
    return KINDS[kind].short.format(value)
