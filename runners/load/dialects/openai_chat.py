"""OpenAI chat completions: POST /chat/completions."""

from collections.abc import Sequence
from typing import Any

from runners.load.dialects.base import BadPayload, Delta, DialectForm
from runners.load.dialects.openai_common import read_message, read_with
from runners.load.workloads import Message


def _body(model: str, messages: Sequence[Message], output_tokens: int) -> dict[str, Any]:
    chat = [{"role": message.role, "content": message.content} for message in messages]
    return {"model": model, "messages": chat, "max_tokens": output_tokens}


def _read_choice(choice: dict[str, Any], delta: Delta, member: str) -> None:
    if member not in choice and "text" in choice:
        raise BadPayload("this is the form of text completions: use the dialect openai-completions")
    read_message(choice.get(member), delta)


def _read(chunk: Any) -> Delta:
    return read_with(chunk, lambda choice, delta: _read_choice(choice, delta, "delta"))


def _read_whole(answer: Any) -> Delta:
    return read_with(answer, lambda choice, delta: _read_choice(choice, delta, "message"))


FORM = DialectForm("/chat/completions", _body, _read, _read_whole)
