"""Log probabilities of whole answers, in the forms that servers give them."""

from math import isfinite
from typing import Any

from runners.load.dialects.base import Logprobs, Token, member


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if known else None


def _pair(entry: Any) -> tuple[str, float] | None:
    text, logprob = member(entry, "token"), _number(member(entry, "logprob"))
    return (text, logprob) if isinstance(text, str) and logprob is not None else None


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _token(entry: Any) -> Token | None:
    """One entry as chats have it: {token, logprob, top_logprobs: [{token, logprob}]}."""
    own = _pair(entry)
    if own is None:
        return None
    top = tuple(pair for one in _listed(member(entry, "top_logprobs")) if (pair := _pair(one)))
    return Token(*own, top if own[0] in dict(top) else (*top, own))


def _tokens(entries: Any) -> list[Token]:
    """All or none: a gap would shift the places of what follows."""
    found = [_token(entry) for entry in _listed(entries)]
    known = [token for token in found if token is not None]
    return known if len(known) == len(found) else []


def _first_choice(answer: Any) -> Any:
    choices = _listed(member(answer, "choices"))
    return choices[0] if choices else None


def _read_chat(answer: Any) -> list[Token]:
    return _tokens(member(_first_choice(answer), "logprobs", "content"))


def _read_completions(answer: Any) -> list[Token]:
    """Parallel lists; llama.cpp answers here too in the form of chats."""
    said = member(_first_choice(answer), "logprobs")
    texts, values = _listed(member(said, "tokens")), _listed(member(said, "token_logprobs"))
    if not texts:
        return _tokens(member(said, "content"))
    tops = _listed(member(said, "top_logprobs")) or [None] * len(texts)
    if not len(texts) == len(values) == len(tops):
        return []
    entries = [
        {
            "token": text,
            "logprob": value,
            "top_logprobs": [{"token": one, "logprob": at} for one, at in top.items()] if isinstance(top, dict) else [],
        }
        for text, value, top in zip(texts, values, tops, strict=True)
    ]
    return _tokens(entries)


def _read_llamacpp(answer: Any) -> list[Token]:
    return _tokens(member(answer, "completion_probabilities"))


CHAT = Logprobs(lambda top: {"logprobs": True, "top_logprobs": top}, _read_chat)
COMPLETIONS = Logprobs(lambda top: {"logprobs": top}, _read_completions)
LLAMACPP = Logprobs(lambda top: {"n_probs": top}, _read_llamacpp)
