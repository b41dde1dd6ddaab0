"""A kind of bad input: what a server does, and what the request must count as."""

import json
from typing import NamedTuple

from tests.services.misbehaving import Script, Wire, content


class Case(NamedTuple):
    """``events`` are the token events that must be kept, ``flags`` and ``detail`` what must be among the row's own.

    ``stream``: whether a stream is asked for.
    """

    script: Script
    outcome: str
    events: int = 0
    flags: tuple[str, ...] = ()
    detail: str = ""
    stream: bool = True


def event(data: object) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


FINISHED = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}
WHOLE = {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}], "usage": USAGE["usage"]}
DONE = b"data: [DONE]\n\n"
GOOD_STREAM = event(content("a")) + event(content("b")) + event(FINISHED) + event(USAGE) + DONE


def with_events(*events: object, done: bool = True) -> Script:
    def script(wire: Wire) -> None:
        wire.head()
        for one in events:
            wire.event(one)
        if done:
            wire.done()
        else:
            wire.end()

    return script


def told(*events: object) -> Script:
    """One token, a clean finish, and these events behind it."""
    return with_events(content("a"), FINISHED, *events)


def usage_of(tokens: object) -> bytes:
    return b'{"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": ' + str(tokens).encode() + b"}}"
