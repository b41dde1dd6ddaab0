"""The prompt of a request, whatever its form, as one text."""

from typing import Any

import orjson


def body_of(body: bytes) -> dict[str, Any] | None:
    """A JSON object, or None."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def prompt_of(body: dict[str, Any] | None) -> str:
    """All messages, or the prompt or input, in order; empty where there is none."""
    if body is None:
        return ""
    system = [_text(body.get("system"))]
    messages = body.get("messages")
    if isinstance(messages, list):
        return "\n".join(
            filter(None, [*system, *(_text(item.get("content")) for item in messages if _is_object(item))])
        )
    return _text(body.get("prompt")) or _text(body.get("input"))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _text(content: Any) -> str:
    """A text, or the texts among several parts; token numbers become text too, so that equal prefixes stay equal."""
    if isinstance(content, str):
        return content
    if isinstance(content, int):
        return f"{content} "
    if isinstance(content, dict):
        return _text(content.get("text", content.get("content")))
    return "".join(map(_text, content)) if isinstance(content, list) else ""
