"""Pages of quality, as people see and use them."""

from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from observatory.quality import evaluations, imports
from observatory.quality.models import QualityResult, TaskSet
from observatory.runs.models import Run
from observatory.studies import trials
from tests import factories
from tests.factories import quality_answers, quality_job, quality_result


@pytest.fixture(autouse=True)
def _no_broker(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{tmp_path}/none.sock")


@pytest.fixture
def ada(db: Any) -> Client:
    client = Client()
    client.force_login(User.objects.create(username="ada"))
    return client


def text(answer: Any) -> str:
    assert answer.status_code == 200, answer
    return " ".join(answer.content.decode().split())


def test_an_evaluation_is_started_from_the_page_and_waits_on_its_own(ada: Client) -> None:
    deployment = factories.benchmark().deployment
    assert "Evaluate a deployment" in text(ada.get(f"/quality/new?deployment={deployment.pk}"))
    asked = {"deployment": deployment.pk, "task_set": "basic", "concurrency": 2, "output_tokens": 32}
    answer = ada.post("/quality/new", asked)
    queued = QualityResult.objects.get()
    assert answer.headers["Location"] == f"/quality/{queued.pk}"
    assert queued.job is not None
    assert (queued.job.kind, queued.job.spec["concurrency"]) == ("quality", 2)
    page = text(ada.get(answer.headers["Location"]))
    assert "Queued since" in page
    assert "the broker cannot be reached" in page
    assert ada.get(f"/runs/{queued.job_id}").headers["Location"] == f"/quality/{queued.pk}"
    assert "quality: basic" in text(ada.get("/overview/live"))
    assert "quality: basic" in str(ada.get("/runs.json").json())


def test_a_bad_run_number_names_the_fix_and_keeps_what_was_typed(ada: Client) -> None:
    deployment = factories.benchmark().deployment
    asked = {"deployment": deployment.pk, "task_set": "basic", "concurrency": 7, "output_tokens": 32, "run": 99}
    page = text(ada.post("/quality/new", asked))
    assert "There is no load run 99" in page
    assert 'value="7"' in page
    assert not Run.objects.exists()


def test_the_page_of_a_result_tells_scores_agreement_and_changed_answers(ada: Client) -> None:
    reference = quality_result(factories.benchmark().deployment)
    result = quality_result(
        factories.benchmark().deployment, quality_answers(4, changed=5), reference_deployment=reference.deployment
    )
    page = text(ada.get(f"/quality/{result.pk}"))
    assert "25.0" in page
    assert "25 right to wrong, 16 wrong to right" in page
    assert page.count("right to wrong") == 26  # of the tasks, and of their sum
    assert "arithmetic-1</bdi>" not in page  # right in both
    assert "arithmetic-1</bdi>" in text(ada.get(f"/quality/{result.pk}?show=all"))
    twin = ada.get(f"/quality/{result.pk}.json").json()
    assert twin["value"] == 0.25
    assert twin["agreement"]["paired"] == 100
    sheet: Any = ada.get(f"/quality/{result.pk}.csv")
    assert b"".join(sheet.streaming_content).count(b"\r\n") == 101
    assert ada.get(f"/quality/{result.pk}/answers.parquet").status_code == 200


def test_two_results_are_compared_from_the_page(ada: Client) -> None:
    first, second = (quality_result(factories.benchmark().deployment) for _ in range(2))
    ada.post(f"/quality/{second.pk}/compare", {"reference": first.pk})
    second.refresh_from_db()
    assert second.agreement is not None
    assert second.agreement["identical"]["share"] == 1.0
    refused = ada.post(f"/quality/{second.pk}/compare", {"reference": second.pk}, follow=True)
    assert "Choose a result of the same task set" in text(refused)


def test_a_failed_job_says_why_on_its_page_and_starts_again(ada: Client) -> None:
    why = {"status": Run.Status.FAILED, "valid": False, "reason": "Nothing listens at that address and port."}
    result = quality_job(factories.benchmark().deployment, **why)
    assert "Nothing listens" in text(ada.get(f"/quality/{result.pk}"))
    answer = ada.post(f"/quality/{result.pk}/again")
    assert answer.headers["Location"] == f"/quality/{QualityResult.objects.latest('pk').pk}"


def test_quality_stands_on_the_pages_of_its_deployment_and_of_its_run(ada: Client) -> None:
    run = factories.finished_run()
    result = quality_result(run.deployment, beside=run)
    for address in (run.deployment.get_absolute_url(), run.get_absolute_url()):
        page = text(ada.get(address))
        assert f'href="/quality/{result.pk}"' in page
        assert "34.0" in page


def test_results_of_lm_eval_are_uploaded(ada: Client) -> None:
    deployment = factories.benchmark().deployment
    file = {"results": {"arc_easy": {"acc,none": 0.62, "acc_stderr,none": 0.0485}}, "model_name": "<b>smol</b>"}
    asked = {"deployment": deployment.pk, "file": SimpleUploadedFile("results_1.json", orjson.dumps(file))}
    page = text(ada.post("/quality/upload", asked, follow=True))
    assert "arc_easy" in page
    assert "&lt;b&gt;smol" in page
    asked = {"deployment": deployment.pk, "file": SimpleUploadedFile("other.json", b"{}")}
    assert "give the results_*.json" in text(ada.post("/quality/upload", asked))


def test_a_task_set_is_uploaded_or_refused_with_its_line(ada: Client) -> None:
    good = orjson.dumps({"id": "a", "kind": "exact", "prompt": "?", "answer": "yes"})
    refused = {"name": "mine", "file": SimpleUploadedFile("mine.jsonl", good + b"\n{}")}
    assert "mine, line 2" in text(ada.post("/quality/task-set", refused))
    ada.post("/quality/task-set", {"name": "mine", "file": SimpleUploadedFile("mine.jsonl", good)})
    assert TaskSet.objects.get().items == 1
    assert "mine" in text(ada.get("/quality/new?task_set=mine"))


def test_the_chart_sets_accuracy_against_cost_with_both_intervals(ada: Client) -> None:
    run = factories.finished_run()
    quality_result(run.deployment, beside=run)
    alone = quality_result(factories.benchmark(model="no-run").deployment)
    for axis in ("usd_per_mtok_output", "wh_per_query"):
        made = ada.get(f"/quality/chart.json?axis={axis}").json()
        (point,) = made["figure"]["data"]
        assert point["y"] == [34.0]
        assert point["error_y"]["arrayminus"][0] > 5
        assert point["error_x"]["array"][0] > 0
        assert alone.deployment.name in made["note"]


def test_without_results_the_page_says_what_to_do(ada: Client) -> None:
    assert "No quality result yet" in text(ada.get("/quality"))
    assert ada.get("/quality/chart.json").json()["figure"] is None


def test_the_compare_room_has_a_row_of_accuracy(ada: Client) -> None:
    runs = [factories.finished_run() for _ in range(2)]
    for run, every in zip(runs, (2, 4), strict=True):
        quality_result(run.deployment, quality_answers(every))
    page = text(ada.get(f"/compare?runs={runs[0].pk},{runs[1].pk}"))
    assert "Accuracy" in page
    assert "worse: 50.0 % lower" in page
    rows = ada.get(f"/compare.json?runs={runs[0].pk},{runs[1].pk}").json()["rows"]
    assert [row["value"] for row in rows if row["metric"] == "accuracy"] == [50.0, 25.0]


def test_taking_in_twice_changes_nothing(ada: Client) -> None:
    result = quality_result(factories.benchmark().deployment)
    evaluations.take_in()
    again = QualityResult.objects.get(pk=result.pk)
    assert (again.value, again.measured_at) == (result.value, result.measured_at)


def test_an_uploaded_result_is_listed_beside_measured_ones(ada: Client) -> None:
    deployment = factories.benchmark().deployment
    quality_result(deployment)
    file = {"results": {"arc_easy": {"acc,none": 0.62, "acc_stderr,none": 0.02}}}
    imports.add(orjson.dumps(file), deployment, None)
    page = text(ada.get("/quality"))
    assert "uploaded" in page
    assert "lm-eval: arc_easy" in page


def test_what_an_arm_of_a_study_changed_stands_on_the_page_and_is_asked_again(ada: Client) -> None:
    study = factories.study(quality={"task_set": "basic", "questions": 10}, repeats=1)
    study.arms.update(spec={"target": {"extra_body": {"think": True}}})
    trial = factories.trial(study, runs=2)
    trials.advance(trial.pk)
    result = QualityResult.objects.get()
    Run.objects.filter(pk=result.job_id).update(status="failed", valid=False, reason="Nothing listens.")
    page = text(ada.get(f"/quality/{result.pk}"))
    assert "think" in page
    assert study.name in page
    ada.post(f"/quality/{result.pk}/again")
    second = QualityResult.objects.exclude(pk=result.pk).get()
    assert (second.task_set, second.target) == ("basic, 10 of 100", {"extra_body": {"think": True}})
    assert second.tasks_sha256 == result.tasks_sha256
