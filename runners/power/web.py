"""Pages of instruments, fetched through the address that was checked, like everything else that is measured."""

import base64
import os
import re
from dataclasses import dataclass, replace
from typing import Any

import orjson

from runners.address import AddressError, ResolveError, parse_endpoint
from runners.load.check import exchange_once
from runners.load.target import destination
from runners.load.transport import Destination
from runners.meters import Web
from runners.power.devices import SourceError
from runners.spec import SpecError, Target, Timeouts

_TIMEOUTS = Timeouts(connect_s=3.0, first_byte_s=5.0, idle_s=5.0, total_s=10.0)
_VISIBLE = re.compile(r"[!-~]*")
_REFUSED = (401, 403)


class WebError(Exception):
    """A page could not be had; the message says what to do."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[bytes, bytes]
    text: str

    @property
    def json(self) -> Any:
        """None for what is not JSON."""
        try:
            return orjson.loads(self.text)
        except orjson.JSONDecodeError:
            return None


class Pages:
    """The pages of one instrument. Raises SourceError for an address, a file or a variable that cannot be used."""

    def __init__(self, access: Web) -> None:
        base, _, self._arguments = access.url.partition("?")
        if not _VISIBLE.fullmatch(self._arguments) or "#" in self._arguments:
            raise SourceError(f"{access.url}: write what follows ? without spaces and #, such as %20 for a space")
        try:
            self._endpoint = parse_endpoint(base)
        except AddressError as error:
            raise SourceError(f"{base}: {error}") from None
        self._target = Target(self._endpoint.url, ca_file=access.ca_file)
        self._access = access
        self._secret = _authorization(access)
        self._where: Destination | None = None
        self.token = ""

    @property
    def url(self) -> str:
        return self._endpoint.url

    @property
    def path(self) -> str:
        """Of the address as it was given, with what follows its question mark."""
        arguments = f"?{self._arguments}" if self._arguments else ""
        return (self._endpoint.base_path or "/") + arguments

    def under(self, path: str) -> str:
        """A path below the address."""
        return f"{self._endpoint.base_path}{path}"

    def get(self, path: str) -> Answer:
        """The page at a path of the host, when it answers 200. Raises WebError, or SourceError for a CA file."""
        return self._good(self.ask("GET", path), path)

    def json(self, path: str) -> Any:
        """Raises WebError, for anything but JSON too."""
        found = self.get(path).json
        if found is None:
            raise WebError(f"{self._shown(path)} does not answer in JSON: is this the right address?")
        return found

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Whatever it answers, as long as it does. Raises WebError."""
        data = b"" if body is None else orjson.dumps(body)
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self._endpoint.authority}",
            "User-Agent: inference-observatory",
            "Accept-Encoding: identity",
            "Connection: close",
            *(["Content-Type: application/json", f"Content-Length: {len(data)}"] if data else []),
            *self._credentials(),
        ]
        exchange = exchange_once(
            self._destination(), _TIMEOUTS, ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + data
        )
        response = exchange.response
        if response.status is None or not response.complete:
            raise WebError(
                f"{self._shown(path)} gives no answer ({exchange.outcome}: {exchange.detail or 'no words'})."
            )
        text = response.body().data.decode("utf-8", "replace")
        return Answer(response.status, response.headers, text)

    def _good(self, answer: Answer, path: str) -> Answer:
        if answer.status in _REFUSED:
            raise WebError(f"{self._shown(path)} refuses access ({answer.status}): {_how_to_enter(self._access)}")
        if answer.status != 200:
            raise WebError(f"{self._shown(path)} answers {answer.status}: is this the right address?")
        return answer

    def _credentials(self) -> list[str]:
        if self.token:
            return [f"X-Auth-Token: {self.token}"]
        return [f"Authorization: {self._secret}"] if self._secret else []

    def _destination(self) -> Destination:
        if self._where is None:
            try:
                self._where = destination(self._endpoint, self._target)
            except ResolveError as error:
                raise WebError(str(error)) from None
            except SpecError as error:
                raise SourceError(str(error).removeprefix("target.")) from None
        return self._where

    def _shown(self, path: str) -> str:
        return replace(self._endpoint, base_path=path.partition("?")[0]).url


def secret(variable: str) -> str:
    """What an environment variable holds. Raises SourceError, which never shows it."""
    value = os.environ.get(variable, "").strip()
    if not value or not value.isprintable() or not value.isascii():
        raise SourceError(f"the environment variable {variable} is not set, or holds what no header can carry")
    return value


def _authorization(access: Web) -> str:
    if access.token_env:
        return f"Bearer {secret(access.token_env)}"
    if access.user_env:
        pair = f"{secret(access.user_env)}:{secret(access.password_env)}"
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    return ""


def _how_to_enter(access: Web) -> str:
    given = [name for name in (access.user_env, access.password_env, access.token_env) if name]
    if given:
        return f"check what {' and '.join(given)} hold and what that account may read."
    return "name variables that hold an account: user_env=NAME,password_env=NAME, or token_env=NAME."
