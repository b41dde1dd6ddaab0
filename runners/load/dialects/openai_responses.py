"""OpenAI responses: POST /v1/responses. Its events carry their kind in ``type``."""

from typing import Any

from runners.load.dialects.base import (
    Ask,
    Delta,
    DialectForm,
    InbandError,
    Piece,
    error_text,
    list_of,
    member,
    object_of,
    refuse_error,
    text_of,
)
from runners.load.dialects.openai_common import data_url, timings_of, usage_of

_DELTA = ".delta"
_TEXT_DELTA = "response.output_text.delta"
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")
_REASONS = {"max_output_tokens": "length"}


def _body(ask: Ask) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": ask.model,
        "input": _input(ask),
        "max_output_tokens": ask.output_tokens,
        "temperature": ask.temperature,
        "stream": ask.stream,
        "store": False,
    }
    if ask.ignore_eos:
        body["ignore_eos"] = True
    return body


def _input(ask: Ask) -> Any:
    if not ask.images:
        return ask.prompt
    images = [{"type": "input_image", "image_url": data_url(image)} for image in ask.images]
    return [{"role": "user", "content": [*images, {"type": "input_text", "text": ask.prompt}]}]


def _read(chunk: Any) -> Delta:
    event = refuse_error(chunk)
    kind = text_of(event.get("type"), "type")
    if kind == "error":
        raise InbandError(error_text(event))
    if kind.endswith(_DELTA):
        return Delta(pieces=[_piece(kind, event.get("delta"))])
    if kind == "response.output_item.added":
        return Delta(pieces=[Piece(other=text_of(member(event.get("item"), "name"), "name"))])
    if kind in _ENDS:
        delta = _summary(event.get("response"))
        delta.timings = timings_of(event.get("timings"))
        delta.done = True
        return delta
    return Delta(model=text_of(member(event.get("response"), "model"), "model") or None)


def _piece(kind: str, delta: Any) -> Piece:
    """Text, reasoning, or a tool's arguments; deltas that are not text (audio parts) count as nothing."""
    text = delta if isinstance(delta, str) else ""
    if kind == _TEXT_DELTA:
        return Piece(content=text_of(delta, "delta"))
    return Piece(reasoning=text) if "reasoning" in kind else Piece(other=text)


def _summary(response: Any) -> Delta:
    """What the object of a finished response says beside its text. Raises InbandError for a failed one."""
    said = refuse_error(response)
    status = text_of(said.get("status"), "status")
    if status in ("failed", "cancelled"):
        raise InbandError(f"the response is {status}")
    why = text_of(member(said, "incomplete_details", "reason"), "reason")
    return Delta(
        finish_reason=_REASONS.get(why, why) or "stop",
        usage=usage_of(said.get("usage")),
        model=text_of(said.get("model"), "model") or None,
    )


def _read_whole(answer: Any) -> Delta:
    delta = _summary(answer)
    piece = Piece()
    for item in list_of(answer.get("output"), "output"):
        _read_item(object_of(item, "an output item"), piece)
    delta.pieces = [piece]
    delta.timings = timings_of(answer.get("timings"))
    return delta


def _read_item(item: dict[str, Any], piece: Piece) -> None:
    reasoning = item.get("type") == "reasoning"
    for part in [*list_of(item.get("content"), "content"), *list_of(item.get("summary"), "summary")]:
        said = object_of(part, "a content part")
        text = text_of(said.get("text"), "text")
        piece.reasoning += text if reasoning else ""
        piece.content += "" if reasoning else text
        piece.other += text_of(said.get("refusal"), "refusal")
    piece.other += text_of(item.get("name"), "name") + text_of(item.get("arguments"), "arguments")


FORM = DialectForm(
    path="/responses",
    body=_body,
    read=_read,
    read_whole=_read_whole,
    optional=("ignore_eos", "store", "temperature"),
    takes_images=True,
    least_output_tokens=16,
)
