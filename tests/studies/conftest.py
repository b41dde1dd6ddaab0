from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from observatory.catalog.models import Deployment, Endpoint
from observatory.studies import design
from observatory.studies.design import ArmPlan
from observatory.studies.models import Study
from tests.services.fixtures import database_url, postgres_server, site, sqlite_template

__all__ = ["database_url", "postgres_server", "site", "sqlite_template"]

SPEC = {"load": {"levels": [2], "requests": 4}, "workload": {"input_tokens": 32, "output_tokens": 8}}


def deployment(name: str, model: str = "steady", url: str = "") -> Deployment:
    """``model`` says how the stand-in instrument behaves."""
    endpoint = Endpoint.objects.create(name=name, url=url or f"http://127.0.0.1:9/{name}", model=model)
    return Deployment.objects.create(name=name, endpoint=endpoint, runs_on_cpu=True)


def make_study(arms: list[ArmPlan], **fields: Any) -> Study:
    user, _ = User.objects.get_or_create(username="ada")
    values = {
        "name": "cache",
        "question": "Does it help?",
        "spec": SPEC,
        "measures": [{"metric": "ttft_ms", "statistic": "p50"}, {"metric": "output_tokens_per_s"}],
        "created_by": user,
        **fields,
    }
    return design.create(Study(**values), arms)


@pytest.fixture
def study(database_url: str) -> Callable[..., Study]:
    """Two arms, of which the second takes twice as long, at endpoints that behave as ``models`` say."""

    def make(models: tuple[str, str] = ("steady", "steady"), slower: float = 2, **fields: Any) -> Study:
        first, second = deployment("first", models[0]), deployment("second", models[1])
        body = {"target": {"extra_body": {"slower": slower}}}
        return make_study([ArmPlan("quick", first), ArmPlan("slow", second, body)], **fields)

    return make
