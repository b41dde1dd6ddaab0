"""OpenAI completions: POST /completions."""

from collections.abc import Sequence
from typing import Any

from runners.load.dialects.base import Delta, DialectForm
from runners.load.dialects.openai_common import read_with, text_of
from runners.load.workloads import Message


def _body(model: str, messages: Sequence[Message], output_tokens: int) -> dict[str, Any]:
    """A chat as its texts, a blank line apart: this form has no roles."""
    prompt = "\n\n".join(message.content for message in messages)
    return {"model": model, "prompt": prompt, "max_tokens": output_tokens}


def _read_choice(choice: dict[str, Any], delta: Delta) -> None:
    delta.content += text_of(choice.get("text"), "text")


def _read(chunk: Any) -> Delta:
    return read_with(chunk, _read_choice)


FORM = DialectForm("/completions", _body, _read, _read)
