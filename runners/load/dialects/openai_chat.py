"""OpenAI chat completions: POST /v1/chat/completions."""

from typing import Any

from runners.load.dialects.base import Ask, BadPayload, Delta, DialectForm, Piece
from runners.load.dialects.logprobs import CHAT
from runners.load.dialects.openai_common import OPTIONAL, common_body, data_url, read_message, read_with


def _body(ask: Ask) -> dict[str, Any]:
    return {**common_body(ask), "messages": ask.chat(lambda text: _content(ask, text))}


def _content(ask: Ask, text: str) -> Any:
    if not ask.images:
        return text
    images = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in ask.images]
    return [*images, {"type": "text", "text": text}]


def _read_choice(choice: dict[str, Any], piece: Piece, member: str) -> None:
    if member not in choice and "text" in choice:
        raise BadPayload("this is the form of text completions: use the dialect openai-completions")
    read_message(choice.get(member), piece)


def _read(chunk: Any) -> Delta:
    return read_with(chunk, lambda choice, piece: _read_choice(choice, piece, "delta"))


def _read_whole(answer: Any) -> Delta:
    return read_with(answer, lambda choice, piece: _read_choice(choice, piece, "message"))


FORM = DialectForm(
    path="/chat/completions",
    body=_body,
    read=_read,
    read_whole=_read_whole,
    logprobs=CHAT,
    optional=OPTIONAL,
    renamed=("max_tokens", "max_completion_tokens"),
    takes_choices=True,
    takes_images=True,
)
