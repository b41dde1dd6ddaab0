"""A calculator: inputs with units and bounds, one pure function, outputs with units, and what it all rests on.

Command line, REST and pages are made from this declaration alone. Inputs that several calculators share have one name
everywhere, so that the catalog can fill them: see ``observatory/catalog/theory_facts.py``.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from math import isfinite, log
from typing import Any, Generic, TypeVar

import numpy as np

from observatory.theory.fields import Column, Entry, columns, entries, finite, plain

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

_YES = {"yes": True, "true": True, "on": True, "1": True, "no": False, "false": False, "off": False, "0": False}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_MOST_NUMBERS = 10_000


@dataclass(frozen=True)
class Fault:
    """What is wrong with one input and how to put it right; ``field`` is empty where no single input is to blame."""

    field: str
    problem: str
    fix: str


class Refused(ValueError):
    """Inputs that give no result, with every fault found."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(f"{fault.field}: {fault.problem} {fault.fix}" for fault in faults))
        self.faults = faults


def refuse(field: str, problem: str, fix: str) -> Refused:
    """For calculators: ``raise refuse("draft_tokens", "It is more than ... .", "Give at most 8.")``."""
    return Refused(Fault(field, problem, fix))


@dataclass(frozen=True)
class Axis:
    """``better`` is "lower", "higher" or nothing. ``from_zero``: false where only differences matter."""

    label: str
    unit: str = ""
    better: str = ""
    from_zero: bool = True


@dataclass(frozen=True)
class Line:
    """Points of one colour, joined unless they are ``points``. A missing ``y`` is a gap; ``x`` is text for bars."""

    label: str
    x: tuple[float | str, ...]
    y: tuple[float | None, ...]
    dashed: bool = False
    points: bool = False


@dataclass(frozen=True)
class Plot:
    """Lines over a common axis, or bars. ``now`` is where the inputs stand on the x axis."""

    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    bars: bool = False
    now: float | None = None
    note: str = ""


def _no_plots(inputs: Any, outputs: Any) -> tuple[Plot, ...]:
    return ()


@dataclass(frozen=True)
class Calculator(Generic[I, O]):
    """``formula``: lines in which ``_x`` lowers and ``^x`` raises a word or a bracket. ``symbols`` explains those that
    belong to no input. ``subject`` is the heading under which it is listed. ``plots`` gives as many, under the same
    titles, whatever the inputs. ``files``: whether its page takes model files.
    """

    name: str
    title: str
    subject: str
    summary: str
    inputs: type[I]
    outputs: type[O]
    compute: Callable[[I], O]
    formula: tuple[str, ...]
    source: str
    assumptions: tuple[str, ...] = ()
    symbols: Mapping[str, str] = field(default_factory=dict)
    plots: Callable[[I, O], tuple[Plot, ...]] = _no_plots
    files: bool = False

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        return entries(self.inputs)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return columns(self.outputs)

    def entry(self, name: str) -> Entry:
        return next(entry for entry in self.entries if entry.name == name)

    def read(self, given: Mapping[str, str]) -> I:
        """Inputs from text, defaults for what is not given. Raises Refused with all faults."""
        known = {entry.name: entry for entry in self.entries}
        faults = [_unknown(name, tuple(known)) for name in given if name not in known]
        values: dict[str, Any] = {}
        for name, text in given.items():
            if name not in known:
                continue
            try:
                values[name] = _value(known[name], text)
            except Refused as error:
                faults += error.faults
        if faults:
            raise Refused(*faults)
        return self.inputs(**values)

    def faults(self, inputs: I) -> list[Fault]:
        """Inputs that are out of their bounds."""
        return [fault for entry in self.entries for fault in _out_of_bounds(entry, getattr(inputs, entry.name))]

    def run(self, inputs: I) -> O:
        """The outputs. Raises Refused; no output is ever NaN or infinite."""
        faults = self.faults(inputs)
        if faults:
            raise Refused(*faults)
        try:
            outputs = self.compute(inputs)
        except (OverflowError, ZeroDivisionError) as error:
            raise _TOO_FAR from error
        if not finite(plain(outputs)):
            raise _TOO_FAR
        return outputs

    def answer(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Inputs as text to the whole answer as JSON has it. Raises Refused."""
        inputs = self.read(given)
        return {"calculator": self.name, "inputs": plain(inputs), "outputs": plain(self.run(inputs))}

    def line(self, inputs: I, over: str, show: str, label: str = "", *, points: int = 61, **changes: Any) -> Line:
        """An output against one input over its whole range, everything else held."""
        xs = spread(self.entry(over), points)
        ys: list[float | None] = []
        for x in xs:
            try:
                found = getattr(self.run(replace(inputs, **{over: x}, **changes)), show)  # type: ignore[type-var]
            except Refused:
                found = None
            ys.append(None if found is None else float(found))
        return Line(label, tuple(float(x) for x in xs), tuple(ys))


_TOO_FAR = Refused(Fault("", "These inputs together give no finite number.", "Bring the extreme ones nearer."))


def spread(entry: Entry, points: int) -> list[Any]:
    """Values of an input from its lowest to its highest, as far apart as its slider has them."""
    low, high = entry.about.low or 0.0, entry.about.high or 0.0
    places = np.linspace(0, 1, points)
    if entry.scale == "log":
        values = low * (high / low) ** places
    else:
        values = low + (high - low) * (places**4 if entry.scale == "power" else places)
    values[0], values[-1] = low, high
    if entry.kind is int:
        return sorted({round(float(value)) for value in values})
    return [entry.kind(float(value)) for value in values]


def place(entry: Entry, text: str) -> int | None:
    """Where a number stands on its slider, of 1000; None for what has no slider or is no number."""
    low, high = entry.about.low or 0.0, entry.about.high or 0.0
    if not entry.is_number or high <= low or not _NUMBER.fullmatch(text.strip()):
        return None
    value = min(max(float(text), low), high)
    if entry.scale == "log":
        share = log(value / low) / log(high / low)
    else:
        share = (value - low) / (high - low)
        share = share**0.25 if entry.scale == "power" else share
    return round(1000 * share)


def _unknown(name: str, known: tuple[str, ...]) -> Fault:
    close = get_close_matches(name, known, 1)
    return Fault(name, "There is no such input.", f"Write {close[0]}." if close else f"Known are {', '.join(known)}.")


def _value(entry: Entry, text: str) -> Any:
    """One input from text. Raises Refused. Bounds are looked at later."""
    stripped = text.strip()
    if entry.choices:
        if stripped not in entry.choices:
            raise refuse(entry.name, f"{_quoted(text)} is none of the choices.", _one_of(entry.choices))
        return entry.kind(stripped)
    if entry.kind is bool:
        if stripped.lower() not in _YES:
            raise refuse(entry.name, f"{_quoted(text)} is neither yes nor no.", "Write yes or no.")
        return _YES[stripped.lower()]
    if entry.kind is str:
        return stripped
    if entry.is_series:
        return tuple(_number(entry, float, part) for part in stripped.split(",") if part.strip())
    if not stripped and entry.optional:
        return None
    return _number(entry, entry.kind, stripped)


def _number(entry: Entry, kind: Any, text: str) -> Any:
    if not _NUMBER.fullmatch(text.strip()):
        raise refuse(entry.name, f"{_quoted(text)} is not a number.", _within(entry))
    found = Decimal(text.strip())
    if not isfinite(float(found)):
        raise refuse(entry.name, f"{_quoted(text)} is too large a number.", _within(entry))
    if kind is int:
        if abs(found) > 10**15 or found != found.to_integral_value():
            raise refuse(entry.name, f"{_quoted(text)} is not a whole number.", _within(entry))
        return int(found)
    return kind(found)


def _out_of_bounds(entry: Entry, value: Any) -> list[Fault]:
    if value is None and entry.optional:
        return []
    if entry.kind is str:
        longest = int(entry.about.high or 0)
        fix = f"Give at most {longest} characters."
        return [] if len(value) <= longest else [Fault(entry.name, "The text is too long.", fix)]
    if entry.is_series:
        if len(value) > _MOST_NUMBERS:
            return [Fault(entry.name, f"There are {len(value)} numbers.", f"Give at most {_MOST_NUMBERS}.")]
        return next(filter(None, (_outside(entry, item) for item in value)), [])
    return _outside(entry, value) if entry.is_number else []


def _outside(entry: Entry, value: Any) -> list[Fault]:
    low, high = entry.about.low, entry.about.high
    if not isfinite(value):
        return [Fault(entry.name, "It is not a finite number.", _within(entry))]
    if (low is not None and value < low) or (high is not None and value > high):
        return [Fault(entry.name, f"{float(value):g} is out of bounds.", _within(entry))]
    return []


def _within(entry: Entry) -> str:
    low, high, unit = entry.about.low, entry.about.high, entry.about.unit
    kind = (
        "a whole number"
        if entry.kind is int
        else "numbers with commas between, each"
        if entry.is_series
        else "a number"
    )
    bounds = "" if low is None or high is None else f" from {low:g} to {high:g}"
    return f"Give {kind}{bounds}{f' {unit}' if unit else ''}."


def _one_of(choices: tuple[str, ...]) -> str:
    return f"Choose one of {', '.join(choices)}."


def _quoted(text: str) -> str:
    return f'"{text[:40]}"' if text.strip() else "Nothing"
