"""What the OpenAI forms share: the frame of a chunk, usage, llama.cpp's timings, images."""

from collections.abc import Callable
from typing import Any

from runners.load.dialects.base import (
    Ask,
    BadPayload,
    Delta,
    Piece,
    Timings,
    Usage,
    choice_of,
    count_of,
    list_of,
    member,
    ms_of,
    object_of,
    refuse_error,
    text_of,
)

#: Body fields that some servers refuse, the least known first.
OPTIONAL = ("ignore_eos", "stream_options", "temperature")


def common_body(ask: Ask) -> dict[str, Any]:
    """What chat and text completions ask for in the same words."""
    body: dict[str, Any] = {"model": ask.model, "max_tokens": ask.output_tokens, "temperature": ask.temperature}
    if ask.stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    if ask.choices > 1:
        body["n"] = ask.choices
    if ask.ignore_eos:
        body["ignore_eos"] = True
    return body


def data_url(image: str) -> str:
    return f"data:image/png;base64,{image}"


def read_with(chunk: Any, read_choice: Callable[[dict[str, Any], Piece], None]) -> Delta:
    """The common frame of a chunk or answer; ``read_choice`` adds what one choice holds."""
    answer = refuse_error(chunk)
    delta = Delta(model=text_of(answer.get("model"), "model") or None)
    delta.usage = usage_of(answer.get("usage"))
    delta.timings = timings_of(answer.get("timings"))
    delta.decoded = count_of(member(answer.get("timings"), "predicted_n"))
    choices = answer.get("choices")
    if choices is None:
        return delta
    for choice in list_of(choices, "choices"):
        if not isinstance(choice, dict):
            raise BadPayload(f"a choice is {type(choice).__name__}, not an object")
        delta.finish_reason = text_of(choice.get("finish_reason"), "finish_reason") or delta.finish_reason
        piece = Piece(choice_of(choice.get("index")))
        read_choice(choice, piece)
        delta.pieces.append(piece)
    return delta


def usage_of(usage: Any) -> Usage | None:
    """OpenAI's usage object; the newer names of the responses form are known too."""
    if not isinstance(usage, dict):
        return None
    prompt_details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    output_details = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    return Usage(
        prompt=count_of(usage.get("prompt_tokens", usage.get("input_tokens"))),
        cached=count_of(member(prompt_details, "cached_tokens")),
        output=count_of(usage.get("completion_tokens", usage.get("output_tokens"))),
        reasoning=count_of(member(output_details, "reasoning_tokens")),
    )


def timings_of(timings: Any) -> Timings | None:
    """llama.cpp's own measure, which it adds to every form that it speaks."""
    if not isinstance(timings, dict):
        return None
    return Timings(ms_of(timings.get("prompt_ms")), ms_of(timings.get("predicted_ms")))


def read_message(message: Any, piece: Piece) -> None:
    """A chat delta or message: content, reasoning under either name, refusal, tool-call arguments."""
    if message is None:
        return
    said = object_of(message, "a delta")
    piece.content = text_of(said.get("content"), "content")
    piece.reasoning = text_of(said.get("reasoning_content"), "reasoning_content") or text_of(
        said.get("reasoning"), "reasoning"
    )
    piece.other = text_of(said.get("refusal"), "refusal")
    for call in list_of(said.get("tool_calls"), "tool_calls"):
        function = member(call, "function")
        piece.other += text_of(member(function, "name"), "name") + text_of(member(function, "arguments"), "arguments")
