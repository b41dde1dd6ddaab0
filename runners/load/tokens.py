"""Counting tokens as the model does: a tokenizer.json, a GGUF model, or the endpoint's own /tokenize."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runners.load.gguftokens import NotRead, gguf_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CountTokens = Callable[[str], int]

#: Posts JSON to a path from the server's root; None for anything but a JSON answer of success.
Post = Callable[[str, dict[str, Any]], Any]

_GGUF = b"GGUF"
_MAX_CALLS = 64
_ENOUGH_WORDS = 40


def tokenizer_counter(path: str) -> CountTokens:
    """Counts tokens with a tokenizer.json or a GGUF model. Raises ValueError with what to do when it cannot be read."""
    tokenizer = _from_gguf(path) if _is_gguf(path) else _from_json(path)

    def count(text: str) -> int:
        whole = text.encode("utf-8", "replace").decode()  # a lone surrogate is JSON, and no text for a tokenizer
        return len(tokenizer.encode(whole, add_special_tokens=False).ids)

    return count


def _from_json(path: str) -> "Tokenizer":
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(path)
    except Exception as error:
        raise ValueError(
            f"the tokenizer {path} cannot be read ({error}): give the path of a tokenizer.json or of a GGUF model"
        ) from None


def _from_gguf(path: str) -> "Tokenizer":
    try:
        return gguf_tokenizer(Path(path))
    except NotRead as error:
        raise ValueError(
            f"the GGUF model {path} cannot be used as a tokenizer: {error}. Leave it out where the server has "
            "/tokenize (llama.cpp, vLLM, SGLang), which is then asked, or give the path of the model's tokenizer.json"
        ) from None


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
    """Those that are one token each, both behind a space and where a prompt begins (templates put it on a line of its
    own); nothing where they are too few, or ``count`` is not consistent.
    """
    found = _alike(count, _alike(count, words, " "), "\n")
    return found if len(found) >= _ENOUGH_WORDS else ()


def _alike(count: CountTokens, words: Sequence[str], between: str) -> tuple[str, ...]:
    """The words that are as many tokens as "a" behind what stands ``between``; those not looked at in time left out."""
    before, calls = count("a"), [0]
    each = count(f"a{between}a") - before

    def keep(some: Sequence[str]) -> tuple[str, ...]:
        calls[0] += 1
        if calls[0] > _MAX_CALLS or each < 1:
            return ()
        if count(between.join(["a", *some])) - before == each * len(some):
            return tuple(some)
        middle = len(some) // 2
        return (*keep(some[:middle]), *keep(some[middle:])) if middle else ()

    return keep(words)
