import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from observatory.api import tokens
from tests.browser import browser, chromium
from tests.services.valkey import Valkey

__all__ = ["browser", "chromium"]


@dataclass
class Caller:
    """Speaks to the API as one token, or as nobody."""

    token: str = ""
    base: str = "/api/v1"

    def call(self, method: str, path: str, body: Any = None, **extra: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        data = "" if body is None else json.dumps(body)
        return Client(raise_request_exception=False).generic(
            method, f"{self.base}{path}", data, content_type="application/json", headers=headers, **extra
        )

    def get(self, path: str, **extra: Any) -> Any:
        return self.call("GET", path, **extra)

    def post(self, path: str, body: Any = None) -> Any:
        return self.call("POST", path, body)

    def upload(self, path: str, data: bytes, *, part: str = "file", **fields: str) -> Any:
        sent = {part: SimpleUploadedFile("prompts.jsonl", data), **fields}
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return Client(raise_request_exception=False).post(f"{self.base}{path}", sent, headers=headers)

    def patch(self, path: str, body: Any) -> Any:
        return self.call("PATCH", path, body)

    def delete(self, path: str) -> Any:
        return self.call("DELETE", path)


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files, broker (there is none) and the throttle's counts of each test are its own."""
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{tmp_path}/none.sock")
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def valkey(monkeypatch: pytest.MonkeyPatch) -> Iterator[Valkey]:
    """A real broker."""
    with TemporaryDirectory(prefix="obs-") as directory:
        server = Valkey(Path(directory))
        server.start()
        monkeypatch.setenv("CELERY_BROKER_URL", server.url)
        yield server
        server.kill()


@pytest.fixture
def user(db: None) -> User:
    return User.objects.create_user("una")


@pytest.fixture
def staff(db: None) -> User:
    return User.objects.create_user("stan", is_staff=True)


@pytest.fixture
def nobody(db: None) -> Caller:
    return Caller()


@pytest.fixture
def as_user(user: User) -> Caller:
    return Caller(tokens.make(user, "test")[1])


@pytest.fixture
def as_staff(staff: User) -> Caller:
    return Caller(tokens.make(staff, "test")[1])
