"""Response bodies: compression undone, JSON read, both within bounds."""

import json
import zlib
from collections.abc import Iterator
from typing import Any

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


class Content:
    """What a body holds, gzip and deflate undone although they were not asked for.

    ``came`` is the part at hand: all of it at once, unless it was compressed. Raises DecodeError.
    """

    def __init__(self, response: Response) -> None:
        body, encoding = response.body(), _encoding(response)
        self._pieces: Iterator[tuple[int, bytes]] = iter(())
        self._error: DecodeError | TooManyBytes | None = None
        self.came = body
        if encoding in (b"", b"identity"):
            return
        if encoding not in _COMPRESSED:
            raise DecodeError(f"content encoding {encoding.decode('latin-1')} was not asked for")
        self._pieces = _inflate(body)
        self.came = body.followed_by([], len(body.data))
        self.go_on(0)

    def go_on(self, at: int) -> bool:
        """Lets go of the first ``at`` bytes and takes some more; False at the end. Raises DecodeError, TooManyBytes."""
        if self._error:
            raise self._error
        pieces: list[tuple[int, bytes]] = []
        size = 0
        try:
            while size < _INFLATE_BYTES:
                pieces.append(next(self._pieces))
                size += len(pieces[-1][1])
        except StopIteration:
            pass
        except (DecodeError, TooManyBytes) as error:
            self._error = error
        if not pieces and not self._error:
            return False
        self.came = self.came.followed_by(pieces, at)
        return True

    def whole(self) -> bytes:
        """All of it. Raises DecodeError, TooManyBytes."""
        while self.go_on(0):
            pass
        return self.came.data


def _inflate(body: StampedBytes) -> Iterator[tuple[int, bytes]]:
    """Pieces of bounded size with their stamps. Raises DecodeError, TooManyBytes."""
    inflater, total = zlib.decompressobj(_GZIP_WBITS), 0
    for stamp_ns, piece in body.reads():
        while piece:
            try:
                data = inflater.decompress(piece, _INFLATE_BYTES)
            except zlib.error as error:
                raise DecodeError(f"broken compression: {error}") from None
            total += len(data)
            if total > MAX_BODY_BYTES:
                raise TooManyBytes
            yield stamp_ns, data
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
