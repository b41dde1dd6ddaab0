"""Streams repeat themselves: most events differ from the one before in nothing but the text of one string.

Such events are recognised by comparing bytes, many times cheaper than framing and parsing them again. Only what is
certain is recognised: the same bytes before and after, and between them UTF-8 without quotes, escapes or control
characters. Everything else goes the long way.
"""

import ctypes
from array import array

from runners.load.compiled import function
from runners.load.sse import Event


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
_take = function("repeats_take", None, *_of, _address, _address)


def repeats(body: bytes, event: Event, text: str) -> tuple[list[str], "array[int]"]:
    """The events after ``event`` that are the same with another text, as texts and ends in ``body``.

    ``text`` is the only generated text of ``event``.
    """
    frame, size = _frame(body[event.start : event.end], text), _number()
    count = _count(frame, body, len(body), event.end, size) if frame else 0
    if not count:
        return [], array("q")
    texts, ends = array("B", bytes(size.value + count)), array("q", bytes(8 * count))
    _take(frame, body, count, event.end, texts.buffer_info()[0], ends.buffer_info()[0])
    found = _utf8(texts.tobytes()).split("\n")[:-1]
    return found, ends[: len(found)]


def _frame(block: bytes, text: str) -> _Frame | None:
    """None where it is not certain."""
    needle = b'"' + text.encode("utf-8", "surrogatepass") + b'"'
    if b"\\" in block or block.count(needle) != 1 or not block.endswith(b"\n"):
        return None
    start = block.index(needle) + 1
    before, after = block[:start], block[start + len(needle) - 2 :]
    return _Frame(before, after, len(before), len(after))


def _utf8(lines: bytes) -> str:
    """The lines before the first that is not UTF-8."""
    try:
        return lines.decode("utf-8")
    except UnicodeDecodeError as error:
        return lines[: lines.rfind(b"\n", 0, error.start) + 1].decode("utf-8")
