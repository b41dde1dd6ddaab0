import html
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from observatory.api import tokens
from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs.models import Run
from tests.services.fixtures import database_url, postgres_server, site, sqlite_template

__all__ = ["database_url", "postgres_server", "site", "sqlite_template"]


def told(run: Run) -> tuple[str, str]:
    """What its page and the API say of a run."""
    user = User.objects.get(username="ada")
    client = Client()
    client.force_login(user)
    headers = {"Authorization": f"Bearer {tokens.make(user, f'for run {run.pk}')[1]}"}
    shown = client.get(f"/api/v1/runs/{run.pk}", headers=headers)
    return html.unescape(client.get(run.get_absolute_url()).content.decode()), shown.content.decode()


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
