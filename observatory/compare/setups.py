"""Only what differs between setups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SetupDifference:
    """``values`` in the order of the stages; None where a setup does not have the field."""

    name: str
    values: tuple[Any, ...]


def setup_differences(setups: Sequence[Mapping[str, Any]]) -> tuple[SetupDifference, ...]:
    """Fields, named by their dotted path, whose values are not the same in all setups; sorted by name."""
    flat = [dict(_flatten(setup)) for setup in setups]
    names = sorted({name for fields in flat for name in fields})
    rows = (SetupDifference(name, tuple(fields.get(name) for fields in flat)) for name in names)
    return tuple(row for row in rows if any(value != row.values[0] for value in row.values[1:]))


def _flatten(setup: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = []
    for name, value in setup.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            fields += _flatten(value, f"{path}.")
        elif isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            fields += _flatten({str(number): item for number, item in enumerate(value, 1)}, f"{path}.")
        elif isinstance(value, list | tuple):
            fields.append((path, ", ".join(_text(item) for item in value) or None))
        else:
            fields.append((path, None if value in ("", None) else value))
    return fields


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
