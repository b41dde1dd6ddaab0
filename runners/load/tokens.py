"""Counting tokens as the model does: a tokenizer.json, or the endpoint's own /tokenize."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

CountTokens = Callable[[str], int]

#: Posts JSON to a path from the server's root; None for anything but a JSON answer of success.
Post = Callable[[str, dict[str, Any]], Any]

_GGUF = b"GGUF"
_MAX_CALLS = 64
_ENOUGH_WORDS = 40


def tokenizer_counter(path: str) -> CountTokens:
    """Counts tokens with a tokenizer.json. Raises ValueError with what to do when it cannot be read."""
    from tokenizers import Tokenizer

    if _is_gguf(path):
        raise ValueError(
            f"the tokenizer {path} is a GGUF model, which is not read: leave it out where the server has /tokenize "
            "(llama.cpp, vLLM, SGLang), which is then asked, or give the path of the model's tokenizer.json"
        )
    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:
        raise ValueError(f"the tokenizer {path} cannot be read ({error}): give the path of a tokenizer.json") from None

    def count(text: str) -> int:
        whole = text.encode("utf-8", "replace").decode()  # a lone surrogate is JSON, and no text for a tokenizer
        return len(tokenizer.encode(whole, add_special_tokens=False).ids)

    return count


def _is_gguf(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return file.read(len(_GGUF)) == _GGUF
    except (OSError, ValueError):
        return False


def endpoint_counter(post: Post, model: str) -> CountTokens | None:
    """Counts tokens with the endpoint's /tokenize, in the forms of llama.cpp ({content}) and of vLLM and SGLang
    ({model, prompt}); None where there is none.
    """
    for body in (lambda text: {"content": text}, lambda text: _vllm_body(model, text)):

        def count(text: str, body: Callable[[str], dict[str, Any]] = body) -> int:
            answer = post("/tokenize", body(text))
            tokens = answer.get("tokens") if isinstance(answer, dict) else None
            return len(tokens) if isinstance(tokens, list) else 0

        if count("one two") > 1:
            return count
    return None


def _vllm_body(model: str, text: str) -> dict[str, Any]:
    return {"model": model, "prompt": text, "add_special_tokens": False}


def single_token_words(count: CountTokens, words: Sequence[str]) -> tuple[str, ...]:
    """Those that are one token each behind a space; nothing where they are too few, or ``count`` is not consistent."""
    before, calls = count("a"), [0]

    def keep(some: Sequence[str]) -> tuple[str, ...]:
        calls[0] += 1
        if calls[0] > _MAX_CALLS:
            return ()
        if count(" ".join(["a", *some])) - before == len(some):
            return tuple(some)
        middle = len(some) // 2
        return (*keep(some[:middle]), *keep(some[middle:])) if middle else ()

    found = keep(words)
    return found if len(found) >= _ENOUGH_WORDS else ()
