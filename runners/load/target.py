"""The endpoint as the engine sees it: address, TLS, headers, and requests ready to send."""

import os
import re
import ssl
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import quote

import orjson

from runners.address import AddressError, Endpoint, parse_endpoint, resolve
from runners.load.dialects import Ask, DialectForm, form
from runners.load.transport import Destination
from runners.load.workloads import Message
from runners.spec import Dialect, SpecError, Target, Workload

_VERSION_SEGMENT = re.compile(r"/v\d+(beta\d*)?$")
_MODEL = "{model}"
_KEY = re.compile(r"[!-~]*")


def _operations() -> re.Pattern[str]:
    """The end of every URL that some dialect posts to, and of the list of models."""
    forms = [form(dialect) for dialect in Dialect]
    paths = {path for one in forms for path in (one.path, one.whole_path, "/models") if path}
    return re.compile(f"({'|'.join(re.escape(path).replace(re.escape(_MODEL), '[^/]+') for path in paths)})$")


_OPERATION = _operations()


def base_endpoint(url: str, dialect: Dialect = Dialect.OPENAI_CHAT) -> Endpoint:
    """The base address behind what people paste: a host, a /v1 base, or a whole operation's URL.

    Raises runners.address.AddressError.
    """
    endpoint = parse_endpoint(url)
    path = _OPERATION.sub("", endpoint.base_path)
    base = form(dialect).base
    if not base:
        path = _VERSION_SEGMENT.sub("", path)
    elif not _VERSION_SEGMENT.search(path):
        path += base
    return replace(endpoint, base_path=path)


def api_key(target: Target) -> str:
    """The key from the environment; empty without one. Raises SpecError when the named variable is not set."""
    if not target.api_key_env:
        return ""
    key = os.environ.get(target.api_key_env, "").strip()
    if not key:
        raise SpecError(f"target.api_key_env: the environment variable {target.api_key_env} is not set or empty")
    _check_key(key, f"target.api_key_env: {target.api_key_env}")
    return key


def _check_key(key: str, where: str) -> None:
    """Raises SpecError, which never shows the key."""
    if not _KEY.fullmatch(key):
        raise SpecError(
            f"{where} holds characters that no header can carry; a key is visible ASCII without spaces or line breaks"
        )


def destination(endpoint: Endpoint, target: Target | None = None) -> Destination:
    """Resolves once and checks every address. Raises runners.address.AddressError, and SpecError for PEM files."""
    proxy = _proxy(target.proxy) if target and target.proxy else None
    contact = proxy or endpoint
    tls = tls_context(target) if endpoint.tls else None
    return Destination(endpoint, tuple(resolve(contact.host, contact.port)), tls, proxy)


def _proxy(url: str) -> Endpoint:
    try:
        return parse_endpoint(url)
    except AddressError as error:
        raise SpecError(f"target.proxy: {error}") from None


def tls_context(target: Target | None) -> ssl.SSLContext:
    """Raises SpecError for PEM files that cannot be used."""
    try:
        context = ssl.create_default_context(cafile=target.ca_file or None if target else None)
    except OSError as error:
        raise SpecError(f"target.ca_file: not a PEM file of certificates that can be read ({_why(error)})") from None
    if target and target.client_cert_file:
        try:  # an encrypted key must be an error, not a question on the terminal
            context.load_cert_chain(target.client_cert_file, target.client_key_file or None, password=lambda: b"")
        except OSError as error:
            raise SpecError(
                "target.client_cert_file: give a PEM certificate with its key, unencrypted, in it or in "
                f"target.client_key_file ({_why(error)})"
            ) from None
    return context


def _why(error: OSError) -> str:
    return error.strerror or str(error)


@dataclass(frozen=True)
class Requests:
    """Builds whole HTTP requests. ``omit`` names body fields that this endpoint refused, ``rename`` says that it wants
    one under its newer name.
    """

    endpoint: Endpoint
    target: Target
    workload: Workload = field(default_factory=Workload)
    key: str = field(default="", repr=False)
    omit: frozenset[str] = frozenset()
    rename: bool = False

    def __post_init__(self) -> None:
        """Raises SpecError for what the dialect has no words for."""
        dialect, workload = self.target.dialect, self.workload
        _check_key(self.key, "the API key")
        if workload.choices > 1 and not self.form.takes_choices:
            raise SpecError(f"workload.choices: the dialect {dialect} gives one answer per request")
        if workload.images.count and not self.form.takes_images:
            raise SpecError(f"workload.images: the dialect {dialect} takes no images")
        if _MODEL in self.form.path and not all(self.models):
            raise SpecError(f"target.model: the dialect {dialect} names the model in its URL; give its name")

    @property
    def form(self) -> DialectForm:
        return form(self.target.dialect)

    def post(self, path: str, body: bytes) -> bytes:
        """A request to another page of the same server; ``path`` stands where the version segment is."""
        return self._head(f"{_VERSION_SEGMENT.sub('', self.endpoint.base_path)}{path}", len(body), "*/*") + body

    @property
    def streams(self) -> bool:
        """Whether an event stream is asked for."""
        return self.workload.stream and self.form.generates

    @property
    def models(self) -> tuple[str, ...]:
        """Every model or adapter that requests name."""
        return tuple(share.name for share in self.workload.models) or (self.target.model,)

    @property
    def headers(self) -> list[str]:
        """Header lines that every request to this endpoint carries, pages beside the measurement too."""
        extra = self.target.extra_headers
        named = {name.lower() for name in extra}
        own = {"User-Agent": "inference-observatory", **dict(self.form.headers)}
        sent = {name: value for name, value in own.items() if name.lower() not in named} | extra
        if self.key:
            name, _, scheme = (self.target.api_key_header or self.form.key_header).partition(":")
            sent[name] = f"{scheme.strip()} {self.key}".strip()
        return [f"{name}: {value}" for name, value in sent.items()]

    def build(
        self, prompt: str | tuple[Message, ...], output_tokens: int, *, model: str = "", images: tuple[str, ...] = ()
    ) -> bytes:
        """``prompt`` is one message of the user, or a chat. ``model`` is the target's own unless one of several is
        named; ``images`` are PNG files in base64.
        """
        workload = self.workload
        ask = Ask(
            model=model or self.models[0],
            messages=(Message("user", prompt),) if isinstance(prompt, str) else prompt,
            output_tokens=output_tokens,
            stream=self.streams,
            choices=workload.choices,
            images=images,
            temperature=workload.temperature,
            ignore_eos=workload.ignore_eos,
        )
        body = orjson.dumps(self._body(ask))
        path = self.form.path if self.streams else self.form.whole_path or self.form.path
        accepted = self.form.framing.content_types[0] if self.streams else "application/json"
        path = f"{self.endpoint.base_path}{path.replace(_MODEL, quote(ask.model, safe=''))}"
        return self._head(path, len(body), accepted) + body

    def _body(self, ask: Ask) -> dict[str, Any]:
        body = self.form.body(ask)
        if self.rename and self.form.renamed:
            old, new = self.form.renamed
            body[new] = body.pop(old)
        return {name: value for name, value in body.items() if name not in self.omit} | self.target.extra_body

    def _head(self, path: str, length: int, accepted: str) -> bytes:
        own = f"Content-Length: {length}\r\nAccept: {accepted}\r\n\r\n"
        return f"POST {path} HTTP/1.1\r\n{self._common_lines}{own}".encode("latin-1")

    @cached_property
    def _common_lines(self) -> str:
        """Those that every head has."""
        lines = [
            f"Host: {self.endpoint.authority}",
            "Content-Type: application/json",
            "Accept-Encoding: identity",
            *self.headers,
        ]
        return "".join(f"{line}\r\n" for line in lines)
