"""Asking an engine to read a prompt and no more."""

from typing import Any

import orjson

_LENGTHS = ("max_tokens", "max_completion_tokens")
#: What asks for more than a token, or only for a form of its stream.
_DROPPED = frozenset(("stream", "stream_options", "min_tokens", "n", "best_of"))


def asking(body: dict[str, Any]) -> bytes:
    """The same request for one token."""
    kept = {name: value for name, value in body.items() if name not in _DROPPED}
    lengths = [name for name in _LENGTHS if name in body] or ["max_tokens"]
    return orjson.dumps(kept | dict.fromkeys(lengths, 1))
