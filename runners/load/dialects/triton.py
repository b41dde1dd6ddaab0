"""Triton's generate extension: POST /v2/models/MODEL/generate_stream. No end mark, no counts: a clean close ends it."""

from typing import Any

from runners.load.dialects.base import Ask, Delta, DialectForm, Piece, refuse_error, text_of


def _body(ask: Ask) -> dict[str, Any]:
    """Names of the TensorRT-LLM and vLLM backends; what is no input of the model is taken as a parameter."""
    body: dict[str, Any] = {
        "text_input": ask.prompt,
        "max_tokens": ask.output_tokens,
        "temperature": ask.temperature,
        "stream": ask.stream,
        "exclude_input_in_output": True,
    }
    if ask.ignore_eos:
        body["ignore_eos"] = True
    return body


def _read(chunk: Any) -> Delta:
    answer = refuse_error(chunk)
    return Delta(
        pieces=[Piece(content=text_of(answer.get("text_output"), "text_output"))],
        model=text_of(answer.get("model_name"), "model_name") or None,
    )


FORM = DialectForm(
    path="/v2/models/{model}/generate_stream",
    whole_path="/v2/models/{model}/generate",
    body=_body,
    read=_read,
    read_whole=_read,
    base="",
    models_path="",
    ends_by_close=True,
    optional=("ignore_eos", "exclude_input_in_output", "temperature"),
)
