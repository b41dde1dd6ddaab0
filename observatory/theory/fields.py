"""What a calculator takes and gives, declared as fields of frozen dataclasses.

An input's kind follows from its annotation: ``float``, ``int``, ``Decimal``, ``bool``, a ``StrEnum``, ``str``,
``tuple[float, ...]`` (numbers with commas between), and any of the numbers ``| None`` where unknown is allowed. An
output is a number, text, a switch, None, or a table: a tuple of another dataclass made with ``result``.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from math import isfinite
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from runners.metrics import significant

#: Numbers whose bounds lie further apart than this get a slider on a logarithmic scale.
_LOG_FROM = 100.0


@dataclass(frozen=True)
class Input:
    """One input as declared. ``low`` and ``high`` are allowed values; a text may have at most ``high`` characters.
    ``suggestions`` gives texts to choose from; others are allowed.
    """

    label: str
    help: str
    unit: str = ""
    symbol: str = ""
    low: float | None = None
    high: float | None = None
    group: str = ""
    suggestions: Callable[[], tuple[str, ...]] | None = None


@dataclass(frozen=True)
class Output:
    """One output as declared. ``decimals``: how many are shown, where three significant digits do not serve."""

    label: str
    help: str = ""
    unit: str = ""
    decimals: int | None = None
    better: str = ""


def number(
    default: float | Decimal | None,
    unit: str,
    label: str,
    help: str,
    *,
    low: float,
    high: float,
    symbol: str = "",
    group: str = "",
) -> Any:
    """A number with its unit and bounds. Its name carries the unit too."""
    return dataclasses.field(default=default, metadata={"about": Input(label, help, unit, symbol, low, high, group)})


def choice(default: StrEnum, label: str, help: str, *, symbol: str = "", group: str = "") -> Any:
    """One of a closed list."""
    return dataclasses.field(default=default, metadata={"about": Input(label, help, "", symbol, group=group)})


def switch(default: bool, label: str, help: str, *, group: str = "") -> Any:
    """On or off."""
    return dataclasses.field(default=default, metadata={"about": Input(label, help, group=group)})


def text(
    default: str,
    label: str,
    help: str,
    *,
    longest: int = 200,
    group: str = "",
    suggestions: Callable[[], tuple[str, ...]] | None = None,
) -> Any:
    """One line of text."""
    about = Input(label, help, high=longest, group=group, suggestions=suggestions)
    return dataclasses.field(default=default, metadata={"about": about})


def series(
    default: tuple[float, ...],
    unit: str,
    label: str,
    help: str,
    *,
    low: float,
    high: float,
    symbol: str = "",
    group: str = "",
) -> Any:
    """Several numbers, each within the bounds."""
    return dataclasses.field(default=default, metadata={"about": Input(label, help, unit, symbol, low, high, group)})


def result(
    unit: str = "", label: str = "", help: str = "", *, decimals: int | None = None, better: str = "", **default: Any
) -> Any:
    """An output. ``better`` is "lower" or "higher", where one of them is."""
    return dataclasses.field(metadata={"about": Output(label, help, unit, decimals, better)}, **default)


@dataclass(frozen=True)
class Entry:
    """An input with its name, its type and its default."""

    name: str
    kind: Any
    optional: bool
    default: Any
    about: Input

    @property
    def is_number(self) -> bool:
        return self.kind in (int, float, Decimal)

    @property
    def is_whole(self) -> bool:
        return self.kind is int

    @property
    def is_series(self) -> bool:
        return get_origin(self.kind) is tuple

    @property
    def choices(self) -> tuple[str, ...]:
        """The words of a closed list, else nothing."""
        return tuple(self.kind) if isinstance(self.kind, type) and issubclass(self.kind, StrEnum) else ()

    @property
    def scale(self) -> str:
        """How a slider moves: "log", "power" (a wide range from zero) or "linear"."""
        low, high = self.about.low or 0.0, self.about.high or 0.0
        if low > 0:
            return "log" if high / low >= _LOG_FROM else "linear"
        return "power" if low == 0 and high > _LOG_FROM else "linear"


@dataclass(frozen=True)
class Column:
    """An output with its name; ``row`` is the dataclass of a table's rows, else None."""

    name: str
    kind: Any
    about: Output
    row: type[Any] | None

    @property
    def is_words(self) -> bool:
        """Whether it is text or a switch, no number."""
        return any(issubclass(kind, str | bool) for kind in _members(self.kind) if isinstance(kind, type))


def entries(inputs: type[Any]) -> tuple[Entry, ...]:
    """The inputs of a calculator, in order."""
    hints = get_type_hints(inputs)
    found = []
    for field in dataclasses.fields(inputs):
        kinds = [kind for kind in _members(hints[field.name]) if kind is not NoneType]
        optional = len(kinds) < len(_members(hints[field.name]))
        found.append(Entry(field.name, kinds[0], optional, field.default, field.metadata["about"]))
    return tuple(found)


def columns(outputs: type[Any]) -> tuple[Column, ...]:
    """The outputs of a calculator, or the columns of a table, in order."""
    hints = get_type_hints(outputs)
    found = []
    for field in dataclasses.fields(outputs):
        hint = hints[field.name]
        row = get_args(hint)[0] if get_origin(hint) is tuple else None
        found.append(Column(field.name, hint, field.metadata["about"], row))
    return tuple(found)


def _members(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) is tuple:
        return (hint,)
    return get_args(hint) or (hint,)


def plain(value: Any) -> Any:
    """A dataclass, or a value of one, as JSON has it. A Decimal becomes a number."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    return value.value if isinstance(value, StrEnum) else value


def written(value: Any) -> str:
    """An input as it is written in a URL or on the command line; the reverse of reading it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ",".join(written(item) for item in value)
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def worded(value: Any, about: Output) -> str:
    """An output as people read it, without its unit."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return str(value)
    found = float(value)
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u2009")
    if about.decimals is None or 0 < abs(found) < 10.0 ** (1 - about.decimals):
        return significant(found)
    return f"{found:,.{about.decimals}f}".replace(",", "\u2009")


def finite(value: Any) -> bool:
    """Whether every number in an output is one."""
    if isinstance(value, Mapping):
        return all(finite(item) for item in value.values())
    if isinstance(value, list):
        return all(finite(item) for item in value)
    return not isinstance(value, float) or isfinite(value)
