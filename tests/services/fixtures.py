"""Fixtures for tests that need real services: ``from tests.services.fixtures import *`` names in a conftest."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from tests.services import postgres
from tests.services.site import Site, database


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory, django_db_blocker: Any) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.sqlite3"
    with django_db_blocker.unblock(), database(f"sqlite:///{path}"):
        call_command("migrate", verbosity=0)
        connection.close()
    return path


@pytest.fixture(scope="session")
def postgres_server(django_db_blocker: Any) -> Iterator[postgres.Postgres]:
    if postgres.missing():
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("PostgreSQL's server is missing: apt install postgresql")
        pytest.skip("PostgreSQL's server is missing")
    server = postgres.Postgres()
    server.start()
    try:
        with django_db_blocker.unblock():
            with database(server.url("postgres")), connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE template")
            with database(server.url("template")):
                call_command("migrate", verbosity=0)
        yield server
    finally:
        server.stop()
        server.remove()


def sqlite_copy(template: Path, directory: Path) -> str:
    """The address of a fresh database."""
    shutil.copy(template, directory / "test.sqlite3")
    return f"sqlite:///{directory / 'test.sqlite3'}"


def _on_postgres(server: postgres.Postgres, name: str) -> str:
    with database(server.url("postgres")), connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE template")
    return server.url(name)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path, django_db_blocker: Any) -> Iterator[str]:
    """A fresh database that other processes can open too, with this process's ORM on it.

    SQLite unless parametrised indirectly with "postgres".
    """
    kind = getattr(request, "param", "sqlite")
    with django_db_blocker.unblock():
        if kind == "postgres":
            url = _on_postgres(request.getfixturevalue("postgres_server"), f"t{abs(hash(str(tmp_path))):x}")
        else:
            url = sqlite_copy(request.getfixturevalue("sqlite_template"), tmp_path)
        with database(url):
            yield url
            connection.close()


@pytest.fixture
def site(database_url: str, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An installation with a Valkey that runs and no worker yet; this process's settings point to it as well."""
    site = Site(database_url)
    for name, value in site.settings.items():
        setattr(settings, name, value)
    monkeypatch.setenv("CELERY_BROKER_URL", site.valkey.url)
    monkeypatch.setenv("LEDGER", str(site.ledger))
    site.valkey.start()
    try:
        yield site
    finally:
        site.close()


both_databases = pytest.mark.parametrize(
    "database_url",
    ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)],
    indirect=True,
)


@pytest.fixture
def benchmark(database_url: str) -> Callable[..., Benchmark]:
    """Makes a benchmark; ``model`` says how the stand-in instrument behaves."""

    def make(model: str = "steady", requests: int = 10, name: str = "b", group: str = "", key: str = "") -> Benchmark:
        user, _ = User.objects.get_or_create(username="ada")
        url = f"http://127.0.0.1:9/{name}"
        endpoint = Endpoint.objects.create(name=name, url=url, model=model, api_key=key)
        deployment = Deployment.objects.create(name=name, endpoint=endpoint, accelerator_group=group)
        values: dict[str, Any] = {"load": {"levels": [2], "requests": requests}, "created_by": user}
        return Benchmark.objects.create(name=name, deployment=deployment, **values)

    return make
