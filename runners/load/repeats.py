"""Streams repeat themselves: most events differ from the one before in nothing but the text of one string.

Such events are recognised by comparing bytes, many times cheaper than framing and parsing them again. Only what is
certain is recognised: the same bytes before and after, and between them UTF-8 without quotes, escapes or control
characters. Everything else goes the long way.
"""

import ctypes
from array import array
from typing import NamedTuple

from runners.load.compiled import function
from runners.load.sse import Event
from runners.load.stamped import StampedBytes


class _Frame(ctypes.Structure):
    """What stands around the text of an event."""

    _fields_ = (
        ("before", ctypes.c_char_p),
        ("after", ctypes.c_char_p),
        ("before_size", ctypes.c_int64),
        ("after_size", ctypes.c_int64),
    )


_number, _address = ctypes.c_int64, ctypes.c_void_p
_of = (ctypes.POINTER(_Frame), ctypes.c_char_p, _number, _number)
_count = function("repeats_count", _number, *_of, ctypes.POINTER(_number))
_take = function("repeats_take", _number, *_of, _address, _address, _address, _address)


class Repeats(NamedTuple):
    """``stamps_ns`` are those of the events, ``text`` is that of all of them, ``end`` is where the last one ends."""

    stamps_ns: "array[int]"
    text: str
    end: int


def repeats(came: StampedBytes, event: Event, text: str) -> Repeats | None:
    """The events after ``event`` that are the same with another text; None where the next one is not.

    ``text`` is the only generated text of ``event``.
    """
    body, size = came.data, _number()
    frame = _frame(body[event.start : event.end], text)
    count = _count(frame, body, len(body), event.end, size) if frame else 0
    while count:
        texts, stamps_ns = array("B", bytes(size.value + count)), array("q", bytes(8 * count))
        to = texts.buffer_info()[0], stamps_ns.buffer_info()[0]
        end = _take(frame, body, count, event.end, came.ends.buffer_info()[0], came.stamps_ns.buffer_info()[0], *to)
        lines = texts.tobytes()
        try:
            return Repeats(stamps_ns, lines.decode("utf-8").replace("\n", ""), end)
        except UnicodeDecodeError as error:  # once more, with those before it
            size.value = lines.rfind(b"\n", 0, error.start) + 1
            count = lines.count(b"\n", 0, size.value)
            size.value -= count
    return None


def _frame(block: bytes, text: str) -> _Frame | None:
    """None where it is not certain."""
    needle = b'"' + text.encode("utf-8", "surrogatepass") + b'"'
    if b"\\" in block or block.count(needle) != 1 or not block.endswith(b"\n"):
        return None
    start = block.index(needle) + 1
    before, after = block[:start], block[start + len(needle) - 2 :]
    return _Frame(before, after, len(before), len(after))
