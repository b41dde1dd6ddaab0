"""Questions of a study through real workers on the real embedded engine; its load runs are a stand-in's."""

from pathlib import Path

from observatory.catalog.models import Deployment, Endpoint
from observatory.studies import trials, verdict
from observatory.studies.design import ArmPlan
from observatory.studies.findings import Word
from observatory.studies.models import Trial
from runners.engines.packaged import MODEL_NAME
from tests.services.engine import embedded_engine
from tests.services.site import Site, wait_for
from tests.studies.conftest import make_study


def test_two_deployments_of_one_engine_give_identical_greedy_answers(site: Site, tmp_path: Path) -> None:
    with embedded_engine(tmp_path) as url:
        endpoint = Endpoint.objects.create(name="engine", url=url, model=MODEL_NAME)
        arms = [Deployment.objects.create(name=name, endpoint=endpoint, runs_on_cpu=True) for name in ("one", "other")]
        asked = {"task_set": "basic", "questions": 4, "output_tokens": 12}
        study = make_study([ArmPlan(arm.name, arm) for arm in arms], quality=asked, repeats=1)
        site.worker("bench")
        trial = trials.start(study, "page")
        wait_for(lambda: Trial.objects.get(pk=trial.pk).ended, 90)
    trial.refresh_from_db()
    found = verdict.of(trial).quality
    assert (trial.status, found.task_set, found.asked) == ("finished", "basic, 4 of 100", True)
    first, second = found.arms
    assert first.found is not None
    assert second.effect is not None
    assert (first.found.n, second.effect.word) == (4, Word.IDENTICAL)
    assert second.found is not None
    assert second.found.reference == first.found
    assert trial.result is not None
    assert trial.result["quality"]["arms"][1]["agreement"]["flips"]["p_value"] == 1
