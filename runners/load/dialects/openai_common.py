"""What the two OpenAI forms share: errors, usage, finish reasons, the llama.cpp timings."""

from collections.abc import Callable
from typing import Any

from runners.load.dialects.base import BadPayload, Delta, InbandError


def read_with(chunk: Any, read_choice: Callable[[dict[str, Any], Delta], None]) -> Delta:
    """The common frame of a chunk or answer; ``read_choice`` adds what one choice holds."""
    if not isinstance(chunk, dict):
        raise BadPayload(f"expected an object, got {type(chunk).__name__}")
    if chunk.get("error"):
        raise InbandError(errortext_of(chunk["error"]))
    delta = Delta(model=text_of(chunk.get("model"), "model") or None)
    usage = chunk.get("usage")
    if isinstance(usage, dict):
        delta.usage = usage
    timings = chunk.get("timings")
    if isinstance(timings, dict):
        delta.timings = timings
    choices = chunk.get("choices")
    if choices is None:
        return delta
    if not isinstance(choices, list):
        raise BadPayload(f"choices is {type(choices).__name__}, not a list")
    delta.choices = len(choices)
    for choice in choices:
        if not isinstance(choice, dict):
            raise BadPayload(f"a choice is {type(choice).__name__}, not an object")
        delta.finish_reason = text_of(choice.get("finish_reason"), "finish_reason") or delta.finish_reason
        read_choice(choice, delta)
    return delta


def errortext_of(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)[:500]
    return str(error)[:500]


def read_message(message: Any, delta: Delta) -> None:
    """A chat delta or message: content, reasoning under either name, refusal, tool-call arguments."""
    if message is None:
        return
    if not isinstance(message, dict):
        raise BadPayload(f"a delta is {type(message).__name__}, not an object")
    delta.content += text_of(message.get("content"), "content")
    delta.reasoning += text_of(message.get("reasoning_content"), "reasoning_content") or text_of(
        message.get("reasoning"), "reasoning"
    )
    delta.other += text_of(message.get("refusal"), "refusal")
    calls = message.get("tool_calls")
    if calls is None:
        return
    if not isinstance(calls, list):
        raise BadPayload(f"tool_calls is {type(calls).__name__}, not a list")
    for call in calls:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            delta.other += text_of(function.get("name"), "name") + text_of(function.get("arguments"), "arguments")


def text_of(value: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadPayload(f"{name} is {type(value).__name__}, not text")
    return value
