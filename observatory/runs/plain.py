"""What instruments and endpoints say, made fit to keep: finite numbers, text that any database takes, no key."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_MASK = "[key]"
#: Shorter ones ("EMPTY", "none") are placeholders, and masking them would garble ordinary text.
_SHORTEST_SECRET = 8


def text(value: str, secret: str = "") -> str:
    """``value`` without the secret, NUL and lone surrogates."""
    if len(secret) >= _SHORTEST_SECRET:
        value = value.replace(secret, _MASK)
    return value.replace("\x00", "").encode(errors="replace").decode()


def plain(value: Any, secret: str = "") -> Any:
    """JSON data with ``text`` applied throughout and numbers that are not finite turned into None."""
    if isinstance(value, str):
        return text(value, secret)
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, dict):
        return {text(str(key), secret): plain(item, secret) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, secret) for item in value]
    return value


def loads(data: str | bytes, secret: str = "") -> Any:
    """Parses JSON into plain data. Raises ValueError when it is not JSON."""
    return plain(json.loads(data), secret)


def masked_bytes(data: bytes, secret: str) -> bytes:
    """``data`` with the secret overwritten in place: the length stays, so that binary formats stay whole."""
    key = secret.encode()
    return data.replace(key, b"*" * len(key)) if len(key) >= _SHORTEST_SECRET else data


def masked_table(table: pa.Table, secret: str) -> pa.Table:
    """``table`` with the secret masked in every text column."""
    if len(secret) < _SHORTEST_SECRET:
        return table
    for index, column in enumerate(table.schema):
        if pa.types.is_string(column.type):
            clean = pc.replace_substring(table.column(index), pattern=secret, replacement=_MASK)
            table = table.set_column(index, column, clean)
    return table
