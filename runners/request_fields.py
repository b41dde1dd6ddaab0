"""What may be added to every request: body fields and headers. A complaint says what to do instead."""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

import orjson

#: Body fields that have a place of their own in the specification.
_OWN_BODY_FIELDS = {
    "model": "say it in target.model or workload.models",
    "stream": "say it in workload.stream",
    "n": "say it in workload.choices",
    "echo": "a prompt that comes back would be counted as output",
}
_OWN_HEADERS = frozenset(
    {"host", "content-length", "content-type", "transfer-encoding", "connection", "accept", "accept-encoding", "expect",
     "upgrade", "te", "trailer"}
)  # fmt: skip
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\xa0-\xff]*")
_SECRET = re.compile(
    r"(^|[-_])((api)?key|auth|authorization|bearer|cookie|credentials?|passw(or)?d|secret|session|signature|token)([-_]|$)",
    re.IGNORECASE,
)


def header_complaint(name: str, value: str) -> str | None:
    """Why this header cannot be sent; None when it can. The value is never repeated."""
    if not _HEADER_NAME.fullmatch(name):
        return "not a header name; use letters, digits and hyphens"
    if name.lower() in _OWN_HEADERS:
        return "this header is set by the load generator itself"
    if _SECRET.search(name):
        return (
            "the name looks like a secret, and a specification is stored and shown. Put the secret into the API key "
            "(target.api_key_env) and this name into target.api_key_header"
        )
    if not _HEADER_VALUE.fullmatch(value):
        return "the value may hold no line breaks or control characters"
    return None


def key_header_complaint(text: str) -> str | None:
    """The same for "NAME" or "NAME: SCHEME", where an API key goes."""
    name, _, scheme = text.partition(":")
    if _HEADER_NAME.fullmatch(name) and name.lower() not in _OWN_HEADERS and _HEADER_VALUE.fullmatch(scheme):
        return None
    return 'a header name such as "x-api-key", or with a scheme such as "Authorization: Bearer"'


def body_complaint(body: Mapping[str, Any]) -> str | None:
    """Why these fields cannot be sent; None when they can."""
    for name in body:
        if name in _OWN_BODY_FIELDS:
            return f"leave out {name}: {_OWN_BODY_FIELDS[name]}"
    try:
        orjson.dumps(body)
        finite = _finite(body)
    except (TypeError, RecursionError) as error:
        return f"it cannot be sent as JSON ({error})"
    return None if finite else "NaN and Infinity are not JSON"


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or isfinite(value)
