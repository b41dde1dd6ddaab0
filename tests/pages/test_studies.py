"""Pages of studies: made from a form, watched, read, repeated, scheduled."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from observatory.catalog.models import Deployment
from observatory.runs.models import Run
from observatory.schedules.models import Schedule
from observatory.studies.models import Study, Trial
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _apart(tmp_path: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{tmp_path}/none.sock")


def fields(**changes: Any) -> dict[str, Any]:
    deployments = list(Deployment.objects.all())
    arms: dict[str, Any] = {
        "arms-TOTAL_FORMS": 4,
        "arms-INITIAL_FORMS": 0,
        "arms-MIN_NUM_FORMS": 0,
        "arms-MAX_NUM_FORMS": 12,
    }
    for index, deployment in enumerate(deployments[:2]):
        arms |= {f"arms-{index}-name": f"arm {index}", f"arms-{index}-deployment": deployment.pk}
    return {
        "name": "two engines",
        "question": "Which one is quicker?",
        "measure": "ttft_ms p50",
        "also": ["output_tokens_per_s mean"],
        "smallest_effect_percent": 5,
        "repeats": 3,
        "order": "random",
        "seed": 7,
        "input_tokens": 64,
        "output_tokens": 16,
        "arrivals": "closed",
        "level": 2,
        "requests": 20,
        "warmup_s": 1,
        "power_source": "auto",
        **arms,
        **changes,
    }


def test_a_study_of_two_deployments_is_made_and_started(user_client: Client) -> None:
    factories.benchmark()
    factories.benchmark()
    answer = user_client.post("/studies/new/own", fields(start="yes", **{"arms-1-spec": '{"load": {"levels": [3]}}'}))
    study = Study.objects.get()
    assert answer.headers["Location"] == f"/studies/{study.pk}?trial={Trial.objects.get().pk}"
    assert study.measures[0] == {"metric": "ttft_ms", "statistic": "p50"}
    run = Run.objects.get()
    assert (run.trigger, run.spec["workload"]["input_tokens"]) == ("study", 64)
    assert {arm.name: arm.spec for arm in study.arms.all()} == {"arm 0": {}, "arm 1": {"load": {"levels": [3]}}}
    page = user_client.get(f"/studies/{study.pk}").content.decode()
    assert "0 of 6 runs are over" in page
    assert "its turn is to come" in page


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"arms-1-name": "arm 0"}, "a name of its own"),
        ({"arms-1-name": "", "arms-1-deployment": ""}, "2 to 12 arms; these are 1"),
        ({"repeats": 0}, "Between 1 and 30"),
        ({"level": 2.5}, "concurrency is a whole number"),
        ({"arms-1-spec": "{levels"}, "no JSON"),
        ({"arms-1-spec": '{"target": {"url": "http://elsewhere"}}'}, "a study may set dialect and extra_body only"),
        ({"arms-1-spec": '{"load": {"levels": [1, 2]}}'}, "one level"),
        ({"more": '{"load": {"concurrency": 3}}'}, "concurrency"),
    ],
)
def test_a_study_that_could_not_be_measured_is_refused_and_the_form_keeps_what_was_typed(
    user_client: Client, changes: dict[str, Any], words: str
) -> None:
    factories.benchmark()
    factories.benchmark()
    page = user_client.post("/studies/new/own", fields(**changes)).content.decode()
    assert words in page
    assert "Which one is quicker?" in page
    assert not Study.objects.exists()


def test_the_page_of_an_ended_study_says_the_answer_with_its_interval(user_client: Client) -> None:
    study = factories.study(
        prediction={"calculator": "speculative", "output": "speedup", "as": "speedup", "inputs": {"drafted": 3}}
    )
    trial = factories.trial(study)
    assert trial.status == "finished"
    page = user_client.get(f"/studies/{study.pk}").content.decode()
    assert trial.result
    assert trial.result["answer"] in page.replace("&#x27;", "'")
    assert "50.0 % lower than arm 1" in page
    assert "Verdict: better" in page
    assert "Measured / predicted" in page
    assert "/theory/speculative?" in page
    listed = user_client.get("/studies").content.decode()
    assert "50.0 % lower" in listed


def test_twins_and_charts_hold_the_numbers_of_the_page(user_client: Client) -> None:
    study = factories.study(factor="Prompt tokens")
    trial = factories.trial(study)
    told = user_client.get(f"/studies/{study.pk}.json").json()
    assert (told["trial"]["id"], told["trial"]["result"]["verdict"]) == (trial.pk, "better")
    assert len(told["trial"]["turns"]) == 6
    sheet = b"".join(user_client.get(f"/studies/{study.pk}.csv").streaming_content).decode()  # type: ignore[attr-defined]
    assert sheet.splitlines()[1].startswith("ttft_ms,p50,ms,arm 1")
    chart = user_client.get(f"/studies/{study.pk}/chart/values.json?measure=0").json()
    measured = next(trace for trace in chart["figure"]["data"] if trace["name"] == "measured")
    assert measured["x"] == [10, 20]
    assert measured["error_y"]["array"][0] > 0
    effects = user_client.get(f"/studies/{study.pk}/chart/effects.json").json()
    assert effects["rows"][0][0] == "arm 2"
    assert user_client.get(f"/studies/{study.pk}/chart/pie.json").status_code == 404
    assert user_client.get(f"/studies/{study.pk}?trial=99").status_code == 404
    assert [row["verdict"] for row in user_client.get("/studies.json").json()["rows"]] == ["better"]


def test_a_running_study_shows_what_is_over_and_asks_for_the_page_when_it_has_ended(user_client: Client) -> None:
    study = factories.study()
    trial = factories.trial(study, runs=3)
    page = user_client.get(f"/studies/{study.pk}").content.decode()
    assert "3 of 6 runs are over" in page
    assert "too few repeats" in page
    assert "3 of 6" in user_client.get(f"/trials/{trial.pk}/progress").content.decode()
    user_client.post(f"/trials/{trial.pk}/cancel")
    assert user_client.get(f"/trials/{trial.pk}/progress").headers["HX-Refresh"] == "true"
    assert "cancelled" in user_client.get(f"/studies/{study.pk}").content.decode()
    assert user_client.post(f"/studies/{study.pk}/start").status_code == 302
    assert study.trials.count() == 2


def test_a_copy_begins_from_the_study_and_keeps_its_theory(user_client: Client) -> None:
    study = factories.study(prediction={"calculator": "speculative", "output": "speedup", "as": "speedup"}, factor="g")
    page = user_client.get(f"/studies/new/own?copy={study.pk}")
    assert f"{study.name} 2" in page.content.decode()
    posted = fields(name="copy", **{"arms-0-name": "arm 1", "arms-1-name": "arm 2"})
    user_client.post(f"/studies/new/own?copy={study.pk}", posted)
    copy = Study.objects.get(name="copy")
    assert copy.prediction == study.prediction
    assert [arm.x for arm in copy.arms.all()] == [10, 20]


def test_a_study_is_scheduled_from_its_page(user_client: Client, user: User) -> None:
    study = factories.study()
    user_client.post(f"/studies/{study.pk}/schedules/new", {"cron": "0 3 * * *", "time_zone": "UTC", "enabled": "on"})
    schedule = Schedule.objects.get()
    assert (schedule.study, schedule.benchmark, schedule.created_by) == (study, None, user)
    for address in ("/schedules", f"/schedules/{schedule.pk}", f"/studies/{study.pk}", "/benchmarks"):
        assert study.name in user_client.get(address).content.decode()
    factories.finished_run()
    assert study.name in user_client.get("/").content.decode()


def test_without_deployments_the_form_says_where_they_come_from(user_client: Client) -> None:
    assert "There is nothing to compare yet" in user_client.get("/studies/new/own").content.decode()
    assert "No study yet" in user_client.get("/studies").content.decode()
