"""How sure a model was of its answer: the mean log probability of the tokens that it chose."""

from collections.abc import Iterator
from typing import Any

import orjson

from runners.load.dialects.logprobs import COMPLETIONS
from runners.load.sse import Decoder, EventTooLarge
from runners.router.prompts import body_of


def asking(path: str, body: dict[str, Any]) -> bytes:
    """The same request, with log probabilities."""
    chat = path.partition("?")[0].endswith("/chat/completions")
    wanted: dict[str, Any] = {"logprobs": True} if chat else {"logprobs": 1}
    return orjson.dumps(body if body.get("logprobs") else body | wanted)


def mean_logprob(answer: bytes) -> float | None:
    """Nats per token, of a whole body: JSON, or a stream of events. None where it has no log probabilities."""
    try:
        values = [token.logprob for part in _parts(answer) for token in COMPLETIONS.read(part)]
    except EventTooLarge:
        return None
    return sum(values) / len(values) if values else None


def _parts(answer: bytes) -> Iterator[Any]:
    whole = body_of(answer)
    if whole is not None:
        yield whole
        return
    for event in iter(Decoder(answer).next, None):
        yield body_of(event.data)
