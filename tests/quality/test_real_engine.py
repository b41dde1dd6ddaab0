"""Evaluations through real workers on the real embedded engine."""

from pathlib import Path
from typing import Any

import orjson

from observatory.catalog.models import Deployment, Endpoint
from observatory.quality import evaluations, sets
from observatory.quality.models import QualityResult
from observatory.runs import dispatch
from observatory.runs.models import Run
from runners.engines.packaged import MODEL_NAME
from runners.quality.tasks import built_in
from tests.services.engine import embedded_engine
from tests.services.site import Site, wait_for


def queue(deployment: Deployment, **more: Any) -> QualityResult:
    result = evaluations.queue(deployment, "short", Run.Trigger.API, concurrency=1, output_tokens=16, **more)
    assert result.job is not None
    assert dispatch.publish(result.job)
    return result


def test_two_deployments_are_evaluated_through_the_queue_and_compared(site: Site, tmp_path: Path) -> None:
    lines = b"\n".join(orjson.dumps(item) for item in built_in().items[:4])
    with embedded_engine(tmp_path) as url:
        endpoint = Endpoint.objects.create(name="e", url=url, model=MODEL_NAME)
        one, other = (Deployment.objects.create(name=name, endpoint=endpoint) for name in ("one", "other"))
        sets.add("short", lines, None)
        site.worker("bench")
        first, second = queue(one, reference=other), queue(other)
        wait_for(lambda: QualityResult.objects.filter(agreement__isnull=False).exists(), 90)
    for result in (first, second):
        result.refresh_from_db()
        assert result.job is not None
        assert (result.job.status, result.job.valid, result.n) == ("finished", True, 4)
        assert result.low is not None
        assert result.job.requests_file
    assert first.agreement is not None
    assert first.agreement["identical"]["share"] == 1.0
    assert first.value == second.value
