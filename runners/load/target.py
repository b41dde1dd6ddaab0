"""The endpoint as the engine sees it: address, TLS, headers, and requests ready to send."""

import os
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from runners.address import Endpoint, parse_endpoint, resolve
from runners.load.dialects import DialectForm, form
from runners.load.transport import Destination
from runners.load.workloads import Message
from runners.spec import Dialect, SpecError, Target, Workload

_VERSION_SEGMENT = re.compile(r"/v\d+(beta\d*)?$")
_OPERATIONS = ("/chat/completions", "/completions", "/models")


def base_endpoint(url: str) -> Endpoint:
    """The base address behind what people paste: a host, a /v1 base, or a whole operation's URL.

    Raises runners.address.AddressError.
    """
    endpoint = parse_endpoint(url)
    path = endpoint.base_path
    for operation in _OPERATIONS:
        path = path.removesuffix(operation)
    if not _VERSION_SEGMENT.search(path):
        path += "/v1"
    return replace(endpoint, base_path=path)


def api_key(target: Target) -> str:
    """The key from the environment; empty without one. Raises SpecError when the named variable is not set."""
    if not target.api_key_env:
        return ""
    key = os.environ.get(target.api_key_env, "").strip()
    if not key:
        raise SpecError(f"target.api_key_env: the environment variable {target.api_key_env} is not set or empty")
    return key


def destination(endpoint: Endpoint) -> Destination:
    """Resolves once and checks every address. Raises runners.address.AddressError."""
    tls = ssl.create_default_context() if endpoint.tls else None
    return Destination(endpoint, tuple(resolve(endpoint.host, endpoint.port)), tls)


@dataclass(frozen=True)
class Requests:
    """Builds whole HTTP requests. ``omit`` names body fields that this endpoint refused."""

    endpoint: Endpoint
    dialect: Dialect
    model: str
    workload: Workload = field(default_factory=Workload)
    key: str = field(default="", repr=False)
    omit: frozenset[str] = frozenset()
    rename_max_tokens: bool = False

    @property
    def form(self) -> DialectForm:
        return form(self.dialect)

    def build(self, messages: Sequence[Message], output_tokens: int, *, stream: bool = True) -> bytes:
        body = orjson.dumps(self._body(messages, output_tokens, stream))
        return self._head(f"{self.endpoint.base_path}{self.form.path}", len(body)) + body

    def post(self, path: str, body: bytes) -> bytes:
        """A request to another page of the same server; ``path`` stands where the version segment is."""
        return self._head(f"{_VERSION_SEGMENT.sub('', self.endpoint.base_path)}{path}", len(body)) + body

    def _body(self, messages: Sequence[Message], output_tokens: int, stream: bool) -> dict[str, Any]:
        body = self.form.body(self.model, messages, output_tokens) | {"temperature": self.workload.temperature}
        if self.rename_max_tokens:
            body["max_completion_tokens"] = body.pop("max_tokens")
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if self.workload.ignore_eos:
            body["ignore_eos"] = True
        return {name: value for name, value in body.items() if name not in self.omit}

    def _head(self, path: str, length: int) -> bytes:
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: {self.endpoint.authority}",
            "Content-Type: application/json",
            f"Content-Length: {length}",
            "Accept: text/event-stream",
            "Accept-Encoding: identity",
            "User-Agent: inference-observatory",
        ]
        if self.key:
            lines.append(f"Authorization: Bearer {self.key}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
