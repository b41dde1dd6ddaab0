"""Quality over REST."""

from typing import Any

import orjson
import pytest

from observatory.quality.models import QualityResult
from observatory.runs.models import Run
from tests import factories
from tests.api.conftest import Caller
from tests.factories import quality_answers, quality_result

LINE = orjson.dumps({"id": "a", "kind": "exact", "prompt": "?", "answer": "yes"}).decode()


def test_an_evaluation_is_queued_as_a_run_of_its_own_kind(as_user: Caller) -> None:
    deployment = factories.benchmark().deployment
    answer = as_user.post("/quality", {"deployment_id": deployment.pk, "concurrency": 2})
    assert answer.status_code == 201
    said = answer.json()
    assert (said["status"], said["value"], said["task_set"]) == ("queued", None, "basic")
    assert "broker" in said["notice"]
    job = as_user.get(f"/runs/{said['job_id']}").json()
    assert (job["kind"], job["benchmark_id"], job["benchmark"]) == ("quality", None, "quality: basic")
    assert as_user.get("/runs?kind=load").json()["count"] == 0
    assert as_user.post(f"/runs/{said['job_id']}/cancel").json()["status"] == "cancelled"


@pytest.mark.parametrize(
    ("change", "field"),
    [({"task_set": "none"}, "task_set"), ({"concurrency": 0}, "concurrency"), ({"colour": "red"}, "colour")],
)
def test_a_refusal_names_the_field_and_queues_nothing(as_user: Caller, change: dict[str, Any], field: str) -> None:
    answer = as_user.post("/quality", {"deployment_id": factories.benchmark().deployment.pk, **change})
    assert answer.status_code == 422
    assert field in str(answer.json()["fields"])
    assert not Run.objects.exists()


def test_a_result_is_read_with_its_answers_and_compared(as_user: Caller) -> None:
    first = quality_result(factories.benchmark().deployment)
    second = quality_result(factories.benchmark().deployment, quality_answers(4))
    listed = as_user.get(f"/quality?deployment_id={first.deployment_id}").json()
    assert [item["value"] for item in listed["items"]] == [0.34]
    said = as_user.post(f"/quality/{second.pk}/compare", {"reference_id": first.pk}).json()
    assert said["agreement"]["flips"]["right_to_wrong"] == 25
    assert said["summary"]["score"]["kinds"]["choice"]["n"] == 27
    rows = as_user.get(f"/quality/{second.pk}/answers?limit=1").json()
    assert (rows["count"], rows["items"][0]["id"]) == (100, "arithmetic-1")
    assert as_user.post(f"/quality/{second.pk}/compare", {"reference_id": second.pk}).status_code == 422


def test_results_of_lm_eval_are_kept(as_user: Caller) -> None:
    deployment = factories.benchmark().deployment
    file = {"results": {"arc_easy": {"acc": 0.62, "acc_stderr": 0.0485}}}
    answer = as_user.post("/quality/lm-eval", {"deployment_id": deployment.pk, "results": file})
    assert (answer.status_code, answer.json()["metric"]) == (201, "acc, arc_easy")
    assert as_user.get(f"/quality/{answer.json()['id']}/answers").status_code == 404
    assert as_user.post("/quality/lm-eval", {"deployment_id": deployment.pk, "results": {}}).status_code == 422
    assert QualityResult.objects.count() == 1


def test_a_task_set_is_kept_once(as_user: Caller) -> None:
    assert as_user.post("/quality/task-sets", {"name": "mine", "lines": LINE}).status_code == 201
    again = as_user.post("/quality/task-sets", {"name": "mine", "lines": LINE})
    assert (again.status_code, again.json()["fields"][0]["field"]) == (422, "name")
    bad = as_user.post("/quality/task-sets", {"name": "other", "lines": "{}"})
    assert "line 1" in bad.json()["fields"][0]["problem"]
    assert as_user.get("/quality/task-sets").json()["count"] == 1


def test_the_comparison_has_accuracy(as_user: Caller) -> None:
    runs = [factories.finished_run() for _ in range(2)]
    for run, every in zip(runs, (2, 4), strict=True):
        quality_result(run.deployment, quality_answers(every))
    rows = as_user.get(f"/comparison?stage={runs[0].pk}.0&stage={runs[1].pk}.0").json()["rows"]
    assert [row["verdict"] for row in rows if row["metric"] == "accuracy"] == ["baseline", "worse"]
