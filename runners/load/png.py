"""Small valid PNG files: one pattern of squares for each size, in colours that a seed decides.

Only the palette differs between two pictures of a size, so one costs microseconds, and every pixel is another.
"""

import zlib
from functools import lru_cache
from random import Random
from struct import pack

import numpy as np

_SQUARE_PX = 16
_COLOURS = 256
_PALETTE_OF_BYTES = 3


def png(width_px: int, height_px: int, seed: bytes) -> bytes:
    """An 8-bit palette image. Format: PNG specification, third edition, 11.2."""
    header = pack(">IIBBBBB", width_px, height_px, 8, _PALETTE_OF_BYTES, 0, 0, 0)
    palette = Random(seed).randbytes(3 * _COLOURS)
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", header),
            _chunk(b"PLTE", palette),
            _pixels(width_px, height_px),
            _chunk(b"IEND", b""),
        )
    )


@lru_cache(maxsize=8)
def _pixels(width_px: int, height_px: int) -> bytes:
    column, row = np.arange(width_px) // _SQUARE_PX, np.arange(height_px)[:, None] // _SQUARE_PX
    squares = ((column * 37 + row * 101) % _COLOURS).astype(np.uint8)
    lines = np.concatenate((np.zeros((height_px, 1), np.uint8), squares), axis=1)  # filter type 0 before each line
    return _chunk(b"IDAT", zlib.compress(lines.tobytes()))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return pack(">I", len(data)) + kind + data + pack(">I", zlib.crc32(kind + data))
