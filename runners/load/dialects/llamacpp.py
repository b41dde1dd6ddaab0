"""llama.cpp's own form: POST /completion. A running count in every event, its timings in the last."""

from typing import Any

from runners.load.dialects.base import (
    Ask,
    Delta,
    DialectForm,
    Piece,
    Usage,
    choice_of,
    count_of,
    member,
    refuse_error,
    text_of,
)
from runners.load.dialects.logprobs import LLAMACPP
from runners.load.dialects.openai_common import timings_of

_REASONS = {"eos": "stop", "word": "stop", "limit": "length"}


def _body(ask: Ask) -> dict[str, Any]:
    return {
        "model": ask.model,
        "prompt": ask.prompt,
        "n_predict": ask.output_tokens,
        "temperature": ask.temperature,
        "stream": ask.stream,
        "ignore_eos": ask.ignore_eos,
    }


def _read(chunk: Any) -> Delta:
    event = refuse_error(chunk)
    delta = Delta(
        pieces=[Piece(choice_of(event.get("index")), text_of(event.get("content"), "content"))],
        model=text_of(event.get("model"), "model") or None,
        timings=timings_of(event.get("timings")),
    )
    if "tokens_predicted" in event:
        delta.usage = Usage(
            prompt=count_of(event.get("tokens_evaluated")),
            cached=count_of(member(event.get("timings"), "cache_n")),
            output=count_of(event.get("tokens_predicted")),
        )
    if event.get("stop") is True:
        delta.done = True
        reason = text_of(event.get("stop_type"), "stop_type")
        delta.finish_reason = _REASONS.get(reason, reason) or "stop"
    return delta


FORM = DialectForm(
    path="/completion",
    body=_body,
    read=_read,
    read_whole=_read,
    base="",
    models_path="/v1/models",
    logprobs=LLAMACPP,
)
