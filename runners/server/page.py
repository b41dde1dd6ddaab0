"""A server's metrics page: where it is, what it says now, and how the readings went."""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from runners.address import Endpoint, parse_endpoint
from runners.load.check import OnTick
from runners.load.target import destination, tls_context
from runners.load.transport import Destination
from runners.probe import fetch
from runners.server.engines import ENGINES, EngineMetrics, engine_of, keys_of
from runners.server.exposition import ExpositionError, Sample
from runners.spec import ServerMetrics, Target

DESCRIPTION_NAME = "server.json"

_TRIES = 5
_MAX_PAGE_CHARS = 8 * 1024 * 1024
_MAX_ROWS = 2_000


def note_of(code: str, text: str) -> dict[str, str]:
    return {"code": code, "text": text}


def _with_whole_paths(target: Target) -> Target:
    """The scraper has a working folder of its own."""
    names = ("ca_file", "client_cert_file", "client_key_file")
    files: dict[str, Any] = {name: str(Path(file).absolute()) for name in names if (file := getattr(target, name))}
    return replace(target, **files)


@dataclass(frozen=True)
class Order:
    """Where the page is. It goes through a pipe: no command line or file holds the key that is among the headers."""

    where: Destination
    target: Target
    path: str
    headers: Sequence[str]

    @classmethod
    def of(cls, asked: ServerMetrics, where: Destination, target: Target, headers: Sequence[str]) -> Self:
        """The page of the server that is measured, or the one asked for. Headers, with the key among them, and client
        certificate are for the measured server alone. Raises AddressError.
        """
        if not asked.url:
            return cls(where, target, "/metrics", headers)
        page = parse_endpoint(asked.url)
        path = page.base_path or "/metrics"
        if (page.scheme, page.host, page.port) == (where.endpoint.scheme, where.endpoint.host, where.endpoint.port):
            return cls(where, target, path, headers)
        stranger = replace(target, client_cert_file="", client_key_file="")
        return cls(destination(page, stranger), stranger, path, ())

    def to_json(self) -> dict[str, Any]:
        where = self.where
        return {
            "endpoint": asdict(where.endpoint),
            "proxy": asdict(where.proxy) if where.proxy else None,
            "addresses": [[int(family), list(address)] for family, address in where.addresses],
            "preferred": where.preferred,
            "target": asdict(_with_whole_paths(self.target)),
            "path": self.path,
            "headers": list(self.headers),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        endpoint, target = Endpoint(**data["endpoint"]), Target(**data["target"])
        addresses = tuple((socket.AddressFamily(family), tuple(address)) for family, address in data["addresses"])
        tls = tls_context(target) if endpoint.tls else None
        proxy = Endpoint(**data["proxy"]) if data["proxy"] else None
        return cls(
            Destination(endpoint, addresses, tls, proxy, data["preferred"]), target, data["path"], data["headers"]
        )

    @property
    def url(self) -> str:
        return replace(self.where.endpoint, base_path=self.path).url


class PageError(Exception):
    """The page could not be read; ``final``: it will not be there a second later either."""

    def __init__(self, code: str, text: str, *, final: bool) -> None:
        super().__init__(text)
        self.note = note_of(code, text)
        self.final = final


@dataclass
class Account:
    """What server.json says."""

    engine: str = ""
    url: str = ""
    keys: tuple[str, ...] = ()
    scrapes: int = 0
    failed: int = 0
    slowest_ms: float = 0.0
    note: dict[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        notes = [self.note] if self.note else []
        if not self.failed and not self.scrapes and self.url:
            notes = [note_of("metrics_no_answer", f"{self.url} gave no answer while the run lasted.")]
        if self.failed and self.scrapes and self.note:
            words = f"{self.failed} of {self.failed + self.scrapes} readings of the metrics page failed; the last one: "
            notes = [note_of(self.note["code"], words + self.note["text"])]
        kept = ("engine", "url", "scrapes", "failed", "slowest_ms")
        return {name: getattr(self, name) for name in kept} | {"keys": list(self.keys), "notes": notes}

    @property
    def hopeless(self) -> bool:
        return not self.scrapes and self.failed >= _TRIES

    def write(self, out: Path) -> None:
        (out / DESCRIPTION_NAME).write_text(json.dumps(self.to_json()))


class MetricsPage:
    """The page as it is now."""

    def __init__(self, order: Order, account: Account) -> None:
        self.account = account
        self._order = order
        self._engine: EngineMetrics | None = None

    def read(self, on_tick: OnTick | None = None) -> list[tuple[str, Sample]]:
        """Raises PageError, which is in the account by then. ``on_tick`` may raise to give up."""
        try:
            return self._found(on_tick)
        except PageError as error:
            self.account.failed = _TRIES if error.final and not self.account.scrapes else self.account.failed + 1
            self.account.note = error.note
            raise

    def _found(self, on_tick: OnTick | None) -> list[tuple[str, Sample]]:
        page = fetch(self._order.where, self._order.path, self._order.headers, on_tick)
        if page is None:
            raise PageError("metrics_no_answer", f"{self._order.url} gave no whole answer.", final=False)
        if page.status != 200 or len(page.text) > _MAX_PAGE_CHARS:
            what = f"answers {page.status}" if page.status != 200 else "is larger than 8 MiB"
            raise PageError("no_metrics_page", f"{self._order.url} {what}. {_how()}", final=page.status in (404, 200))
        self._engine = self._engine or engine_of(page.text)
        if self._engine is None:
            raise PageError("no_metrics_page", f"{self._order.url} has no metrics that are known. {_how()}", final=True)
        try:
            found = [(key, sample) for key, sample in self._engine.read(page.text) if abs(sample.value) < float("inf")]
        except ExpositionError as error:
            raise PageError("metrics_unreadable", f"{self._order.url}: {error}.", final=False) from None
        self.account.engine, self.account.keys = self._engine.engine, tuple(keys_of(found))
        return found[:_MAX_ROWS]


def _how() -> str:
    return f"{'; '.join(engine.how for engine in ENGINES)}."
