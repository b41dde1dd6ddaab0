"""Text Generation Inference: POST /generate_stream. Every event is one token; the last one has the details."""

from typing import Any

from runners.load.dialects.base import (
    Ask,
    Delta,
    DialectForm,
    Piece,
    Usage,
    count_of,
    list_of,
    member,
    object_of,
    refuse_error,
    text_of,
)

_REASONS = {"eos_token": "stop", "stop_sequence": "stop"}


def _body(ask: Ask) -> dict[str, Any]:
    """TGI refuses a temperature of 0; leaving it out means greedy decoding."""
    parameters: dict[str, Any] = {
        "max_new_tokens": ask.output_tokens,
        "details": True,
        "decoder_input_details": not ask.stream,
        "return_full_text": False,
    }
    if ask.temperature > 0:
        parameters |= {"temperature": ask.temperature, "do_sample": True}
    return {"inputs": ask.prompt, "parameters": parameters}


def _read(chunk: Any) -> Delta:
    event = refuse_error(chunk)
    token = object_of(event.get("token", {}), "token")
    special = token.get("special") is True
    delta = Delta(pieces=[Piece(content="" if special else text_of(token.get("text"), "text"))])
    delta.usage = Usage(output=count_of(event.get("index"))) if "index" in event else None
    details = event.get("details")
    if details is not None:
        delta.usage = _usage(details)
        delta.finish_reason = _reason(details)
    delta.done = event.get("generated_text") is not None
    return delta


def _reason(details: Any) -> str | None:
    reason = text_of(member(details, "finish_reason"), "finish_reason")
    return _REASONS.get(reason, reason) or None


def _usage(details: Any) -> Usage | None:
    prompt = count_of(member(details, "input_length"))
    prefill = member(details, "prefill")
    if prompt is None and prefill:
        prompt = len(list_of(prefill, "prefill"))
    output = count_of(member(details, "generated_tokens"))
    return None if prompt is None and output is None else Usage(prompt=prompt, output=output)


def _read_whole(answer: Any) -> Delta:
    if isinstance(answer, list) and len(answer) == 1:
        answer = answer[0]
    said = refuse_error(answer)
    details = said.get("details")
    return Delta(
        pieces=[Piece(content=text_of(said.get("generated_text"), "generated_text"))],
        usage=_usage(details),
        finish_reason=_reason(details),
    )


FORM = DialectForm(
    path="/generate_stream",
    whole_path="/generate",
    body=_body,
    read=_read,
    read_whole=_read_whole,
    base="",
    models_path="/info",
)
