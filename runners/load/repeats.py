"""Streams repeat themselves: most events differ from the one before in nothing but the text of one string.

Such events are recognised by comparing bytes, many times cheaper than framing and parsing them again. Only what is
certain is recognised: the same bytes before and after, and between them UTF-8 without quotes, escapes or control
characters. Everything else goes the long way.
"""

import re
from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

from runners.load.sse import Event

_PLAIN_LINES = re.compile(rb'(?:[^\x00-\x1f"\\]+\n)*')
_FIRST_LOOK, _FURTHER_LOOK = 16, 64
_SPARE_BYTES = 32


class Frame(NamedTuple):
    """What stands around the text of an event; its lines are ended by LF."""

    before: bytes
    after: bytes


def repeats(body: bytes, event: Event, text: str) -> tuple[list[str], list[int]]:
    """The events after ``event`` that are the same with another text, as texts and ends in ``body``.

    ``text`` is the only generated text of ``event``.
    """
    frame = _frame(body[event.start : event.end], text)
    texts: list[str] = []
    ends: list[int] = []
    at, most = event.end, _FIRST_LOOK
    while frame and body.startswith(frame.before, at):
        window = body[at : at + most * (event.end - event.start + _SPARE_BYTES)]
        more = _texts(window, frame, most)
        size = len(frame.before) + len(frame.after)
        ends += list(accumulate([size + len(one) for one in more], initial=at))[1:]
        texts += b"\n".join(more).decode("utf-8").split("\n") if more else []
        if len(more) < most // 2:
            break
        at, most = ends[-1], _FURTHER_LOOK
    return texts, ends


def _frame(block: bytes, text: str) -> Frame | None:
    """None where it is not certain."""
    needle = b'"' + text.encode("utf-8", "surrogatepass") + b'"'
    if b"\\" in block or block.count(needle) != 1 or not block.endswith(b"\n"):
        return None
    start = block.index(needle) + 1
    return Frame(block[:start], block[start + len(needle) - 2 :])


def _texts(window: bytes, frame: Frame, most: int) -> list[bytes]:
    """The texts of the events with which ``window`` begins, as far as they are repeats."""
    before, after = frame
    first = before.count(b"\n")
    step = first + after.count(b"\n")
    start, stop = len(before) - before.rfind(b"\n") - 1, -after.index(b"\n")
    lines = window.split(b"\n")
    texts = [line[start:stop] for line in lines[first : min(most, (len(lines) - 1) // step) * step : step]]

    def differ(count: int) -> bool:
        return not window.startswith(before + (after + before).join(texts[:count]) + after)

    if differ(len(texts)):
        del texts[bisect_left(range(1, len(texts)), True, key=differ) :]
    plain = _PLAIN_LINES.match(b"\n".join([*texts, b""]))
    told = plain[0] if plain else b""
    del texts[told.count(b"\n") :]
    return texts if _is_utf8(told) else []


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
