"""What an engine may be told, in its own terms: the kinds of values, and their check."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from runners.strict_json import SpecError

#: So much of a wrong value is repeated.
_SHOWN = 80


class Kind(StrEnum):
    INTEGER = "an integer"
    NUMBER = "a number"
    SWITCH = "true or false"
    CHOICE = "one of a list"
    CHOICES = "some of a list"
    TEXT = "a text"
    TEXTS = "a list of texts"
    MODEL = "a model"
    OBJECT = "an object"
    RECIPES = "a list of recipes"


@dataclass(frozen=True)
class Option:
    """``least`` and ``most`` bound numbers; ``choices`` are the words of CHOICE and CHOICES."""

    name: str
    kind: Kind
    words: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None

    @property
    def wanted(self) -> str:
        """What a value must be, in words."""
        if self.choices:
            return f"{self.kind.value}: {', '.join(self.choices)}"
        bounds = [
            f"{word} {bound:g}"
            for word, bound in (("at least", self.least), ("at most", self.most))
            if bound is not None
        ]
        return f"{self.kind.value} of {' and '.join(bounds)}" if bounds else self.kind.value

    def complaint(self, value: Any) -> str | None:
        return None if self._fits(value) else f"{json.dumps(value)[:_SHOWN]} is not {self.wanted}"

    def _fits(self, value: Any) -> bool:
        match self.kind:
            case Kind.INTEGER | Kind.NUMBER:
                return self._in_bounds(value)
            case Kind.SWITCH:
                return isinstance(value, bool)
            case Kind.CHOICE:
                return value in self.choices
            case Kind.CHOICES:
                return bool(_texts(value)) and set(value) <= set(self.choices)
            case Kind.TEXTS:
                return bool(_texts(value))
            case Kind.OBJECT:
                return isinstance(value, dict)
            case Kind.RECIPES:
                return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
        return isinstance(value, str) and bool(value) and "\0" not in value

    def _in_bounds(self, value: Any) -> bool:
        kinds = int if self.kind is Kind.INTEGER else (int, float)
        if not isinstance(value, kinds) or isinstance(value, bool):
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def of_text(self, text: str) -> Any:
        """A value as it is typed: texts bare, several with commas between, the rest as JSON. Raises SpecError."""
        if self.kind in (Kind.TEXT, Kind.MODEL, Kind.CHOICE):
            return text
        if self.kind in (Kind.TEXTS, Kind.CHOICES):
            return [part.strip() for part in text.split(",")]
        try:
            return json.loads(text)
        except ValueError:
            raise SpecError(f"{self.name}: {text!r} is not {self.wanted}") from None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) and item for item in value)


def typed(value: Any) -> str:
    """A value as ``of_text`` reads it."""
    if isinstance(value, str):
        return value
    return ",".join(value) if _texts(value) else json.dumps(value)


def pairs(lines: Iterable[str], path: str) -> list[tuple[str, str]]:
    """Names and values of lines such as name=value. Raises SpecError."""
    found = []
    for line in filter(str.strip, lines):
        name, equals, value = line.strip().partition("=")
        if not equals or not name.strip():
            raise SpecError(f"{path}: {line!r}: write it as name=value")
        found.append((name.strip(), value.strip()))
    return found


def cores(text: str, path: str) -> list[int]:
    """Numbers with commas between. Raises SpecError."""
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise SpecError(f"{path}: {text!r} is no list of cores such as 0,1") from None


def named(options: tuple[Option, ...], name: str, path: str) -> Option:
    """Raises SpecError that names what is near."""
    found = next((option for option in options if option.name == name), None)
    if found is None:
        near = get_close_matches(name, [option.name for option in options], 3, 0.5)
        fix = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(item.name for item in options)}"
        raise SpecError(f"{path}.{name}: no such option; {fix}")
    return found


def check(options: tuple[Option, ...], given: dict[str, Any], path: str) -> None:
    """Raises SpecError for the first option that is unknown or out of its bounds."""
    for name, value in given.items():
        complaint = named(options, name, path).complaint(value)
        if complaint:
            raise SpecError(f"{path}.{name}: {complaint}")
