"""Ollama: POST /api/chat and /api/generate. JSON lines; the last one says done and holds Ollama's own counts and times.

It has no way to ignore the end-of-text token: answers may be shorter than asked for.
"""

from collections.abc import Callable
from typing import Any

from runners.load.dialects.base import (
    JSON_LINES,
    Ask,
    Delta,
    DialectForm,
    Piece,
    Timings,
    Usage,
    count_of,
    json_of,
    list_of,
    member,
    ms_of,
    object_of,
    refuse_error,
    text_of,
)

_NS_PER_MS = 1e6


def _options(ask: Ask) -> dict[str, Any]:
    return {"num_predict": ask.output_tokens, "temperature": ask.temperature}


def _chat_body(ask: Ask) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": ask.prompt}
    if ask.images:
        message["images"] = list(ask.images)
    return {"model": ask.model, "messages": [message], "stream": ask.stream, "options": _options(ask)}


def _generate_body(ask: Ask) -> dict[str, Any]:
    body = {"model": ask.model, "prompt": ask.prompt, "stream": ask.stream, "options": _options(ask)}
    if ask.images:
        body["images"] = list(ask.images)
    return body


def _read_with(chunk: Any, read_piece: Callable[[dict[str, Any]], Piece]) -> Delta:
    line = refuse_error(chunk)
    delta = Delta(pieces=[read_piece(line)], model=text_of(line.get("model"), "model") or None)
    if line.get("done") is not True:
        return delta
    delta.done = True
    delta.finish_reason = text_of(line.get("done_reason"), "done_reason") or "stop"
    counted = "eval_count" in line or "prompt_eval_count" in line
    delta.usage = (
        Usage(count_of(line.get("prompt_eval_count")), None, count_of(line.get("eval_count"))) if counted else None
    )
    delta.timings = Timings(
        ms_of(line.get("prompt_eval_duration"), _NS_PER_MS), ms_of(line.get("eval_duration"), _NS_PER_MS)
    )
    return delta


def _chat_piece(line: dict[str, Any]) -> Piece:
    message = object_of(line.get("message", {}), "message")
    piece = Piece(
        content=text_of(message.get("content"), "content"), reasoning=text_of(message.get("thinking"), "thinking")
    )
    for call in list_of(message.get("tool_calls"), "tool_calls"):
        function = member(call, "function")
        piece.other += text_of(member(function, "name"), "name") + json_of(
            member(function, "arguments") or {}, "arguments"
        )
    return piece


def _generate_piece(line: dict[str, Any]) -> Piece:
    return Piece(content=text_of(line.get("response"), "response"), reasoning=text_of(line.get("thinking"), "thinking"))


def _read_chat(chunk: Any) -> Delta:
    return _read_with(chunk, _chat_piece)


def _read_generate(chunk: Any) -> Delta:
    return _read_with(chunk, _generate_piece)


def _form(path: str, body: Callable[[Ask], dict[str, Any]], read: Callable[[Any], Delta]) -> DialectForm:
    return DialectForm(
        path=path,
        body=body,
        read=read,
        read_whole=read,
        base="",
        models_path="/api/tags",
        framing=JSON_LINES,
        takes_images=True,
    )


CHAT = _form("/api/chat", _chat_body, _read_chat)
GENERATE = _form("/api/generate", _generate_body, _read_generate)
