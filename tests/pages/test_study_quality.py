"""Quality on the pages of a study: asked for in a form, watched, read beside money and energy."""

from typing import Any

import orjson
import pytest
from django.test import Client

from observatory.catalog.models import Deployment
from observatory.pages.estimates import ASSUMED_TPOT_MS, ASSUMED_TTFT_MS
from observatory.quality import imports
from observatory.studies.models import Study
from runners.quality.spec import QualitySpec
from runners.quality.tasks import built_in
from tests import factories
from tests.pages.test_studies import fields

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _apart(tmp_path: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{tmp_path}/none.sock")


def asking(**fields: Any) -> Study:
    return factories.study(quality={"task_set": "basic"}, repeats=1, **fields)


def test_the_page_shows_table_and_charts_of_quality_against_what_a_query_takes(user_client: Client) -> None:
    answers = [factories.quality_answers(), factories.quality_answers(right_every=4)]
    study = asking()
    trial = factories.trial(study, answers=answers)
    page = user_client.get(f"/studies/{study.pk}").content.decode()
    assert "25 right to wrong" in page
    assert "Quality on basic: 25.0 % right against 34.0 %" in page
    assert f"Result {trial.slots.get(index=2).run.quality.pk}" in page  # type: ignore[union-attr]
    for name in ("quality-usd", "quality-wh"):
        chart = user_client.get(f"/studies/{study.pk}/chart/{name}.json").json()
        first, second = chart["figure"]["data"]
        assert (first["y"], second["y"]) == ([34], [25])
        assert first["x"][0] > 0
        assert first["error_y"]["array"][0] > 0
        assert chart["columns"][0] == "Arm"
        assert len(chart["columns"]) == len(chart["rows"][0])
    sheet = b"".join(user_client.get(f"/studies/{study.pk}.csv").streaming_content).decode()  # type: ignore[attr-defined]
    assert "accuracy,mean,%,arm 2" in sheet
    told = user_client.get(f"/studies/{study.pk}.json").json()
    assert told["study"]["quality"] == {"task_set": "basic"}
    assert told["trial"]["result"]["quality"]["measured_in_trial"]


def test_results_of_lm_eval_of_the_deployments_are_there_to_choose(user_client: Client) -> None:
    study = asking()
    factories.trial(study, answers=[factories.quality_answers(), factories.quality_answers()])
    file = {"results": {"arc_easy": {"acc,none": 0.62, "acc_stderr,none": 0.02}}}
    for arm in study.arms.all():
        kept = imports.add(orjson.dumps(file), arm.deployment, None)
    page = user_client.get(f"/studies/{study.pk}?set={kept.tasks_sha256}").content.decode()
    assert "lm-eval: arc_easy" in page
    assert "62.0" in page
    assert "from outside this trial" in page


def test_a_running_trial_shows_which_questions_wait(user_client: Client) -> None:
    study = asking()
    factories.trial(study, runs=1)
    page = user_client.get(f"/studies/{study.pk}").content.decode()
    assert "1 of 4 runs are over" in page
    assert "its turn is to come" in page
    assert "200 questions" in page


def test_what_a_trial_takes_counts_the_seconds_of_its_questions(user_client: Client) -> None:
    study = asking()
    with_questions = user_client.get(f"/studies/{study.pk}").context["seconds"]
    Study.objects.update(quality={})
    without = user_client.get(f"/studies/{study.pk}").context["seconds"]
    tokens = [task.output_tokens or QualitySpec.output_tokens for task in built_in().tasks]
    each_s = sum((ASSUMED_TTFT_MS + ASSUMED_TPOT_MS * (count - 1)) / 1000 for count in tokens)
    assert with_questions - without == pytest.approx(study.arms.count() * each_s)


def test_what_a_trial_costs_counts_its_questions_and_is_unknown_where_a_price_is(user_client: Client) -> None:
    study = asking()
    Deployment.objects.update(usd_per_hour=2)
    page = user_client.get(f"/studies/{study.pk}").context
    assert page["usd"] == pytest.approx(page["seconds"] * 2 / 3600)
    Deployment.objects.filter(pk=study.arms.first().deployment_id).update(usd_per_hour=None)
    assert user_client.get(f"/studies/{study.pk}").context["usd"] is None


def test_a_study_without_questions_says_how_to_come_by_them(user_client: Client) -> None:
    study = factories.study(repeats=1)
    factories.trial(study)
    page = user_client.get(f"/studies/{study.pk}").content.decode()
    assert "Nobody asked whether the answers are still right" in page
    assert user_client.get(f"/studies/{study.pk}/chart/quality-wh.json").json()["figure"] is None
    assert user_client.get(f"/studies/{study.pk}.json").json()["trial"]["result"]["quality"] is None


def test_the_form_asks_for_questions_and_a_copy_keeps_them(user_client: Client) -> None:
    factories.benchmark()
    factories.benchmark()
    user_client.post("/studies/new/own", fields(task_set="basic", questions=20))
    study = Study.objects.get()
    assert study.quality == {"task_set": "basic", "questions": 20}
    page = user_client.get(f"/studies/new/own?copy={study.pk}").content.decode()
    assert '<option value="basic" selected>' in page
    assert "20 questions of" in user_client.get(f"/studies/{study.pk}").content.decode()
    Study.objects.update(quality={"questions": 20, "output_tokens": 12})
    user_client.post(f"/studies/new/own?copy={study.pk}", fields(name="copy", task_set="basic"))
    assert Study.objects.get(name="copy").quality == {"task_set": "basic", "output_tokens": 12}
    refused = user_client.post("/studies/new/own", fields(name="more", task_set="basic", questions=200))
    assert "basic has 100" in refused.content.decode()


@pytest.mark.parametrize(
    ("posted", "quality"),
    [
        ({"form": "full", "quality": "yes"}, {"task_set": "basic"}),
        ({"form": "short", "quality": "yes"}, {"task_set": "basic", "questions": 12}),
        ({"form": "full"}, {}),
    ],
)
def test_a_ready_made_study_is_made_with_questions_or_without(
    user_client: Client, posted: dict[str, str], quality: dict[str, Any]
) -> None:
    assert "checked" in user_client.get("/studies/new/weight-quantization").content.decode()
    user_client.post("/studies/new/weight-quantization", {"name": "mine", **posted})
    assert Study.objects.get().quality == quality
