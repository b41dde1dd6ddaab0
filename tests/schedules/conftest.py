from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from tests.services.fixtures import database_url, postgres_server, site, sqlite_template

__all__ = ["database_url", "postgres_server", "site", "sqlite_template"]


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
