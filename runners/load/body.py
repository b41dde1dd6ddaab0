"""Response bodies: compression undone, JSON read, both within bounds."""

import json
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from runners.load.framing import MAX_BODY_BYTES, Response, TooManyBytes
from runners.load.stamped import StampedBytes

_SHOWN_BYTES = 16_384
_INFLATE_BYTES = 262_144
_GZIP_WBITS = 47  # zlib or gzip, told by the header
_COMPRESSED = (b"gzip", b"deflate", b"x-gzip")


class DecodeError(Exception):
    """The bytes are not in an encoding that is understood."""


class NotJson(Exception):
    """The text is not JSON; the message is its beginning, long enough to mask a key before the cut."""


def compressed(response: Response) -> bool:
    return _encoding(response) not in (b"", b"identity")


@dataclass(frozen=True)
class Content:
    """What a body holds; ``error`` is why nothing follows it."""

    body: StampedBytes
    error: DecodeError | TooManyBytes | None = None


def content(response: Response) -> Content:
    """The body; gzip and deflate undone although they were not asked for. Raises DecodeError."""
    body, encoding = response.body(), _encoding(response)
    if encoding in (b"", b"identity"):
        return Content(body)
    if encoding not in _COMPRESSED:
        raise DecodeError(f"content encoding {encoding.decode('latin-1')} was not asked for")
    data, ends, start = bytearray(), list[int](), 0
    error: DecodeError | TooManyBytes | None = None
    inflater = zlib.decompressobj(_GZIP_WBITS)
    try:
        for end in body.ends.tolist():
            _inflate(inflater, body.data[start:end], data)
            ends.append(len(data))
            start = end
    except zlib.error as broken:
        error = DecodeError(f"broken compression: {broken}")
    except TooManyBytes as too_many:
        error = too_many
    ends += [len(data)] * (len(body.ends) - len(ends))
    return Content(body.with_data(bytes(data), np.array(ends, dtype=np.int64)), error)


def _inflate(inflater: "zlib._Decompress", piece: bytes, data: bytearray) -> None:
    while piece:
        data += inflater.decompress(piece, _INFLATE_BYTES)
        if len(data) > MAX_BODY_BYTES:
            raise TooManyBytes
        piece = inflater.unconsumed_tail


def _encoding(response: Response) -> bytes:
    return response.headers.get(b"content-encoding", b"identity").strip().lower()


def parse(data: bytes) -> Any:
    """Raises DecodeError for what is not UTF-8, NotJson."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:  # orjson refuses lone surrogates and huge integers, which are JSON all the same
        return json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise DecodeError(f"not UTF-8: {error.reason}") from None
    except (ValueError, RecursionError):
        raise NotJson(f"not JSON: {data[:_SHOWN_BYTES].decode('utf-8', 'replace')}") from None


def repeats_a_key(data: bytes) -> bool:
    """Whether some object in this JSON text names a member twice; of those the last one counts."""
    found = False

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal found
        members = dict(pairs)
        found = found or len(members) < len(pairs)
        return members

    try:
        json.loads(data, object_pairs_hook=note)
    except (ValueError, RecursionError):
        return False
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
