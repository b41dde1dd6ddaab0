"""JSON to frozen dataclasses, strictly: a typo is an error and not a default."""

import dataclasses
import re
import types
import typing
from enum import StrEnum
from functools import cache
from typing import Any

#: What neither a database nor a file can hold.
_IN_NO_TEXT = re.compile("[\\x00\\ud800-\\udfff]")


class SpecError(ValueError):
    """The specification cannot be run; the message names the field and the fix."""


def build(kind: Any, data: Any, path: str) -> Any:
    """``data`` as the annotated type ``kind``; strict, so that a typo is an error and not a default."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _build_union(typing.get_args(kind), data, path)
    if origin is typing.Literal:
        return data
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise SpecError(f"{path}: must be a list")
        return tuple(build(typing.get_args(kind)[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise SpecError(f"{path}: must be an object")
        return {name: build(typing.get_args(kind)[1], value, f"{path}.{name}") for name, value in data.items()}
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(kind, data, path)
    return _build_scalar(kind, data, path)


def _build_union(options: tuple[Any, ...], data: Any, path: str) -> Any:
    """Null where it is allowed; an object for the dataclasses, told apart by their ``kind``; else the plain type."""
    if data is None and type(None) in options:
        return None
    objects: list[Any] = [option for option in options if dataclasses.is_dataclass(option)]
    plain = [option for option in options if option not in objects and option is not type(None)]
    if plain and not (objects and isinstance(data, dict)):
        return build(plain[0], data, path)
    if len(objects) == 1:
        return build(objects[0], data, path)
    kinds = {typing.get_args(_hints(option)["kind"])[0]: option for option in objects}
    named = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(named, str) or named not in kinds:
        raise SpecError(f"{path}.kind: must be one of {', '.join(kinds)}")
    return build(kinds[named], data, path)


def _build_dataclass(kind: Any, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise SpecError(f"{path}: must be an object")
    hints = _hints(kind)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise SpecError(f"{path}.{unknown[0]}: no such field; known are {', '.join(sorted(hints))}")
    values = {name: build(hints[name], value, f"{path}.{name}") for name, value in data.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise SpecError(f"{path}: {error}") from error


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _build_scalar(kind: Any, data: Any, path: str) -> Any:
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        return _number(data, path)
    if kind is int and isinstance(data, int) and not isinstance(data, bool):
        if not -(2**63) <= data < 2**63:
            raise SpecError(f"{path}: too large; whole numbers have 64 bits")
        return data
    if kind is str and isinstance(data, str):
        return _text(data, path)
    if kind is bool and isinstance(data, bool):
        return data
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        try:
            return kind(data)
        except ValueError:
            raise SpecError(f"{path}: {data!r} is not one of {', '.join(kind)}") from None
    raise SpecError(f"{path}: {data!r} is not {'a number' if kind in (int, float) else f'a {kind.__name__}'}")


def _number(data: int | float, path: str) -> float:
    try:
        return float(data)
    except OverflowError:
        raise SpecError(f"{path}: too large for a number") from None


def _text(data: str, path: str) -> str:
    if _IN_NO_TEXT.search(data):
        raise SpecError(f"{path}: it holds a character that no text can have, such as NUL")
    return data
