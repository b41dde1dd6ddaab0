"""OpenAI's chat completions in bytes: what a body asks for, and the events of its answer. No sockets."""

import json
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: Tokens that a chat costs beside its words, as templates do.
TEMPLATE_TOKENS = 4


class BadRequest(ValueError):
    """What is wrong with a body, in words; becomes status 400."""


@dataclass(frozen=True)
class Asked:
    tokens: tuple[int, ...]
    max_tokens: int
    stream: bool
    usage: bool


def asked(body: bytes, vocabulary: int, context: int) -> Asked:
    """A word is a token. Raises BadRequest."""
    try:
        data = json.loads(body)
        words = " ".join(str(message["content"]) for message in data["messages"]).split()
        max_tokens = int(data.get("max_completion_tokens") or data.get("max_tokens") or 16)
        stream, options = bool(data.get("stream")), data.get("stream_options") or {}
    except (ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"the body is not a chat completion: {error!r}") from None
    tokens = (*range(TEMPLATE_TOKENS), *(zlib.crc32(word.encode()) % vocabulary for word in words))
    if not words or max_tokens < 1:
        raise BadRequest("send at least one word and ask for at least one token")
    if len(tokens) + max_tokens > context:
        raise BadRequest(f"{len(tokens)} prompt tokens and {max_tokens} more do not fit into a context of {context}")
    return Asked(tokens, max_tokens, stream, bool(options.get("include_usage")))


def word(token: int) -> str:
    return f" w{token}"


class Answer:
    """The events of one streamed answer, or the whole of it."""

    def __init__(self, asked: Asked, model: str) -> None:
        self._asked = asked
        self._base = {"id": f"chatcmpl-{time.monotonic_ns()}", "created": int(time.time()), "model": model}

    def first(self) -> bytes:
        return self._chunk([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])

    def token(self, token: int) -> bytes:
        return self._chunk([{"index": 0, "delta": {"content": word(token)}, "finish_reason": None}])

    def last(self, count: int) -> bytes:
        """An answer that ended before its length has no finish reason: it was cut off."""
        whole = count >= self._asked.max_tokens
        end = self._chunk([{"index": 0, "delta": {}, "finish_reason": "length"}]) if whole else b""
        usage = self._chunk([], usage=self._usage(count)) if self._asked.usage and whole else b""
        return end + usage + (b"data: [DONE]\n\n" if whole else b"")

    def whole(self, tokens: Sequence[int]) -> bytes:
        message = {"role": "assistant", "content": "".join(map(word, tokens))}
        choices = [{"index": 0, "message": message, "finish_reason": "length"}]
        return json.dumps(
            {**self._base, "object": "chat.completion", "choices": choices, "usage": self._usage(len(tokens))}
        ).encode()

    def _chunk(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        data = {**self._base, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(data)}\n\n".encode()

    def _usage(self, count: int) -> dict[str, int]:
        prompt = len(self._asked.tokens)
        return {"prompt_tokens": prompt, "completion_tokens": count, "total_tokens": prompt + count}
