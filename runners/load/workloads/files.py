"""Prompts and recorded chats in files that people have."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from runners.load.workloads.base import Message
from runners.spec import SpecError

_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "assistant": "assistant",
          "bing": "assistant", "bard": "assistant", "system": "system"}  # fmt: skip


@dataclass(frozen=True)
class Recorded:
    """One prompt or chat of a file; ``output_tokens`` only where the file asks for so many."""

    messages: tuple[Message, ...]
    output_tokens: int | None = None


def read_prompts(path: str) -> list[Recorded]:
    """A prompt or chat a line: "text", {"prompt": "text"} or {"messages": [{"role", "content"}]}, the latter two with
    "output_tokens" if wanted. Raises SpecError that names the line.
    """
    return [_prompt(item, f"{path}, {where}") for where, item in _items(path)]


def read_chats(path: str) -> list[tuple[Message, ...]]:
    """Chats in the ShareGPT form ({"conversations": [{"from", "value"}]}) or with "messages", as one JSON list or a
    chat a line; those without a question are left out. Raises SpecError.
    """
    chats = [messages_of(item, f"{path}, {where}") for where, item in _items(path)]
    asked = [chat for chat in chats if any(message.role == "user" for message in chat)]
    if not asked:
        raise SpecError(f"{path} holds no question: give chats in the ShareGPT form")
    return asked


def _items(path: str) -> Iterator[tuple[str, Any]]:
    """(where, value) of every entry."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise SpecError(f"workload.source.file: {path} cannot be read ({error.strerror})") from None
    if data.lstrip()[:1] == b"[":
        yield from ((f"entry {number}", item) for number, item in enumerate(_parsed(data, path), 1))
        return
    lines = [(number, line) for number, line in enumerate(data.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise SpecError(f"workload.source.file: {path} is empty")
    for number, line in lines:
        yield f"line {number}", _parsed(line, f"{path}, line {number}")


def _parsed(data: bytes, where: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise SpecError(f"{where}: not JSON ({error}): one JSON value a line is expected") from None


def _prompt(item: Any, where: str) -> Recorded:
    if isinstance(item, str):
        item = {"prompt": item}
    tokens = item.get("output_tokens") if isinstance(item, dict) else None
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 1):
        raise SpecError(f"{where}: output_tokens must be a whole number of 1 or more")
    if isinstance(item, dict) and "prompt" in item:
        if not isinstance(item["prompt"], str) or not item["prompt"]:
            raise SpecError(f"{where}: the prompt must be a text that is not empty")
        return Recorded((Message("user", item["prompt"]),), tokens)
    return Recorded(messages_of(item, where), tokens)


def messages_of(item: Any, where: str) -> tuple[Message, ...]:
    """The chat of an entry. Raises SpecError that begins with ``where``."""
    said = item.get("conversations", item.get("messages")) if isinstance(item, dict) else None
    if not isinstance(said, list) or not said:
        raise SpecError(f'{where}: give "prompt", or a list of "messages" (or of "conversations")')
    return tuple(_message(entry, where) for entry in said)


def _message(entry: Any, where: str) -> Message:
    role = entry.get("role", entry.get("from")) if isinstance(entry, dict) else None
    content = entry.get("content", entry.get("value")) if isinstance(entry, dict) else None
    if not isinstance(role, str) or role not in _ROLES or not isinstance(content, str):
        raise SpecError(f'{where}: a message needs a "role" (or "from") of {", ".join(_ROLES)} and a "content" of text')
    return Message(_ROLES[role], content)
