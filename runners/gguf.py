"""The metadata of a GGUF file (specification version 3 of ggml, docs/gguf.md); tensors are not read."""

import struct
from collections.abc import Container
from dataclasses import dataclass
from typing import Any, BinaryIO

_MOST_NAMES = 100_000
_MOST_ITEMS = 10_000_000
_LONGEST_TEXT = 1_000_000
_TEXT, _LIST = 8, 9
#: The plain kinds of values, by number.
_PLAIN = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class GgufError(ValueError):
    """The file is no whole GGUF file, or of a version that is not known."""


@dataclass(frozen=True)
class Head:
    """``tensors``: how many follow. ``values``: those of the metadata that were asked for."""

    tensors: int
    values: dict[str, Any]


def read_head(file: BinaryIO, wanted: Container[str]) -> Head:
    """Reads up to the description of the first tensor. Raises GgufError, OSError."""
    try:
        magic, version, tensors, pairs = _read(file, "4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise GgufError(f"GGUF version {version} is not known; versions 2 and 3 are")
        if tensors > _MOST_NAMES or pairs > _MOST_NAMES:
            raise GgufError("the GGUF header is damaged")
        values = {}
        for _ in range(pairs):
            key, (kind,) = read_text(file), _read(file, "I")
            value = _value(file, kind, keep=key in wanted)
            if key in wanted:
                values[key] = value
    except (struct.error, KeyError, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise GgufError("the GGUF header is damaged or cut off") from error
    return Head(tensors, values)


def read_text(file: BinaryIO) -> str:
    (length,) = _read(file, "Q")
    if length > _LONGEST_TEXT:
        raise GgufError("the GGUF header is damaged")
    return _bytes(file, length).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int, *, keep: bool) -> Any:
    """One metadata value; None where it is only passed by."""
    if kind == _TEXT:
        return read_text(file)
    if kind != _LIST:
        return _read(file, _PLAIN[kind])[0]
    inner, count = _read(file, "IQ")
    if count > _MOST_ITEMS:
        raise GgufError("the GGUF header is damaged")
    if inner in _PLAIN:
        raw = _bytes(file, struct.calcsize(f"<{_PLAIN[inner]}") * count)
        return list(struct.unpack(f"<{count}{_PLAIN[inner]}", raw)) if keep else None
    items = [_value(file, inner, keep=keep) for _ in range(count)]
    return items if keep else None


def _read(file: BinaryIO, form: str) -> tuple[Any, ...]:
    return struct.unpack(f"<{form}", _bytes(file, struct.calcsize(f"<{form}")))


def _bytes(file: BinaryIO, count: int) -> bytes:
    found = file.read(count)
    if len(found) < count:
        raise GgufError("the GGUF header is cut off")
    return found
