"""Response bodies: compression undone, JSON read, both within bounds."""

import json
import zlib
from collections.abc import Iterator
from typing import Any

import orjson

from runners.load.framing import MAX_BODY_BYTES, Read, Response, TooManyBytes

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


def pieces(response: Response) -> Iterator[Read]:
    """The body in pieces of bounded size; gzip and deflate undone although they were not asked for.

    Raises DecodeError, TooManyBytes.
    """
    encoding = _encoding(response)
    if encoding in (b"", b"identity"):
        yield from response.body
        return
    if encoding not in _COMPRESSED:
        raise DecodeError(f"content encoding {encoding.decode('latin-1')} was not asked for")
    inflater, total = zlib.decompressobj(_GZIP_WBITS), 0
    for read, piece in response.body:
        while piece:
            try:
                data = inflater.decompress(piece, _INFLATE_BYTES)
            except zlib.error as error:
                raise DecodeError(f"broken compression: {error}") from None
            total += len(data)
            if total > MAX_BODY_BYTES:
                raise TooManyBytes
            yield read, data
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
