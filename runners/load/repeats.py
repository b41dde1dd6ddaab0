"""Streams repeat themselves: most events differ from the one before in nothing but the text of one string.

Such an event is recognised by comparing bytes, several times cheaper than framing and parsing it again. Only what is
certain is recognised: a piece of body that was one whole event, the same bytes before and after, and plain ASCII
without quotes or escapes between. Everything else goes the long way.
"""

import re

_PLAIN = re.compile(rb"[ !#-\[\]-~]+")


class Repeat:
    """Learns the frame of one event; tells the text of the next that has the same frame."""

    __slots__ = ("_prefix", "_suffix", "_tail")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._prefix = self._suffix = b""
        self._tail = 0

    def learn(self, piece: bytes, text: str) -> None:
        """``piece`` was one event whose only generated text was ``text``."""
        needle = b'"' + text.encode("utf-8", "replace") + b'"'
        if not _PLAIN.fullmatch(needle, 1, len(needle) - 1) or piece.count(needle) != 1:
            self.forget()
            return
        start = piece.index(needle) + 1
        self._prefix = piece[:start]
        self._suffix = piece[start + len(needle) - 2 :]
        self._tail = len(self._suffix)

    def text(self, piece: bytes) -> str | None:
        """The text, when ``piece`` is that event again with another plain text; else None."""
        prefix = self._prefix
        if not prefix or not piece.startswith(prefix) or not piece.endswith(self._suffix):
            return None
        found = _PLAIN.fullmatch(piece, len(prefix), len(piece) - self._tail)
        return found[0].decode("ascii") if found else None
