"""Anthropic messages: POST /v1/messages. Its input tokens leave out what came from or went into the prompt cache."""

from typing import Any

from runners.load.dialects.base import (
    Ask,
    Delta,
    DialectForm,
    InbandError,
    Piece,
    Usage,
    count_of,
    error_text,
    json_of,
    list_of,
    member,
    object_of,
    refuse_error,
    text_of,
)
from runners.load.dialects.openai_common import timings_of

_REASONS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls",
            "refusal": "content_filter"}  # fmt: skip


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": ask.model,
        "max_tokens": ask.output_tokens,
        "messages": [{"role": "user", "content": _content(ask)}],
        "temperature": ask.temperature,
        "stream": ask.stream,
    }
    if ask.ignore_eos:
        body["ignore_eos"] = True
    return body


def _content(ask: Ask) -> Any:
    if not ask.images:
        return ask.prompt
    images = [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}
        for image in ask.images
    ]
    return [*images, {"type": "text", "text": ask.prompt}]


def _read(chunk: Any) -> Delta:
    event = refuse_error(chunk)
    match text_of(event.get("type"), "type"):
        case "content_block_delta":
            return Delta(pieces=[_piece(object_of(event.get("delta"), "delta"))])
        case "content_block_start":
            return Delta(pieces=[_block(object_of(event.get("content_block"), "content_block"))])
        case "message_start":
            message = object_of(event.get("message"), "message")
            return Delta(usage=_usage(message.get("usage")), model=text_of(message.get("model"), "model") or None)
        case "message_delta":
            return Delta(finish_reason=_reason(event.get("delta")), usage=_usage(event.get("usage")))
        case "message_stop":
            return Delta(done=True, timings=timings_of(event.get("timings")))
        case "error":
            raise InbandError(error_text(event))
    return Delta()


def _piece(delta: dict[str, Any]) -> Piece:
    return Piece(
        content=text_of(delta.get("text"), "text"),
        reasoning=text_of(delta.get("thinking"), "thinking"),
        other=text_of(delta.get("partial_json"), "partial_json"),
    )


def _block(block: dict[str, Any]) -> Piece:
    """The head of a content block: a tool's name, or text that came at once."""
    piece = _piece(block)
    piece.other += text_of(block.get("name"), "name")
    return piece


def _reason(delta: Any) -> str | None:
    reason = text_of(member(delta, "stop_reason"), "stop_reason")
    return _REASONS.get(reason, reason) or None


def _usage(usage: Any) -> Usage | None:
    if not isinstance(usage, dict):
        return None
    fresh = count_of(usage.get("input_tokens"))
    cached = count_of(usage.get("cache_read_input_tokens"))
    written = count_of(usage.get("cache_creation_input_tokens"))
    prompt = None if fresh is None else fresh + (cached or 0) + (written or 0)
    return Usage(prompt, cached, count_of(usage.get("output_tokens")))


def _read_whole(answer: Any) -> Delta:
    said = refuse_error(answer)
    if said.get("type") == "error":
        raise InbandError(error_text(said))
    delta = Delta(finish_reason=_reason(said), usage=_usage(said.get("usage")))
    delta.model = text_of(said.get("model"), "model") or None
    for block in list_of(said.get("content"), "content"):
        piece = _block(object_of(block, "a content block"))
        piece.other += "" if block.get("input") is None else json_of(block["input"], "input")
        delta.pieces.append(piece)
    return delta


FORM = DialectForm(
    path="/messages",
    body=_body,
    read=_read,
    read_whole=_read_whole,
    headers=(("anthropic-version", "2023-06-01"),),
    key_header="x-api-key",
    optional=("ignore_eos", "temperature"),
    takes_images=True,
)
