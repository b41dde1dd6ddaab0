"""OpenAI completions: POST /v1/completions."""

from typing import Any

from runners.load.dialects.base import Ask, Delta, DialectForm, Piece, text_of
from runners.load.dialects.logprobs import COMPLETIONS
from runners.load.dialects.openai_common import OPTIONAL, common_body, read_with


def _body(ask: Ask) -> dict[str, Any]:
    """``echo``: a prompt that came back would be taken for output."""
    return {**common_body(ask), "prompt": ask.prompt, "echo": False}


def _read_choice(choice: dict[str, Any], piece: Piece) -> None:
    piece.content = text_of(choice.get("text"), "text")


def _read(chunk: Any) -> Delta:
    return read_with(chunk, _read_choice)


FORM = DialectForm(
    path="/completions",
    body=_body,
    read=_read,
    read_whole=_read,
    logprobs=COMPLETIONS,
    optional=("echo", *OPTIONAL),
    takes_choices=True,
)
