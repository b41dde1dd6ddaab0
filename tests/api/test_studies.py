from typing import Any

import pytest

from observatory.runs.models import Run
from observatory.studies.models import Study
from tests import factories
from tests.api.conftest import Caller

pytestmark = pytest.mark.django_db


def asked(**changes: Any) -> dict[str, Any]:
    first, second = (factories.benchmark().deployment for _ in range(2))
    return {
        "name": "two engines",
        "question": "Which one is quicker?",
        "arms": [
            {"name": "one", "deployment_id": first.pk},
            {"name": "two", "deployment_id": second.pk, "spec": {"load": {"levels": [3]}}},
        ],
        "spec": {"load": {"levels": [2], "requests": 20}},
        "measures": [{"metric": "ttft_ms", "statistic": "p50"}],
        **changes,
    }


def test_a_study_is_made_carried_out_cancelled_and_read(as_user: Caller) -> None:
    made = as_user.post("/studies", asked())
    assert made.status_code == 201
    key = made.json()["id"]
    assert [arm["name"] for arm in made.json()["arms"]] == ["one", "two"]
    trial = as_user.post(f"/studies/{key}/trials")
    assert (trial.status_code, trial.json()["status"]) == (201, "running")
    assert Run.objects.get().trigger == "study"
    again = as_user.post(f"/studies/{key}/trials")
    assert (again.status_code, again.json()["code"]) == (409, "running")
    at = f"/trials/{trial.json()['id']}"
    told = as_user.get(at).json()
    assert [turn["unused"] for turn in told["turns"]][:2] == ["it is queued", "its turn is to come"]
    assert told["result"]["comparable"] is False
    assert as_user.post(f"{at}/cancel").json()["status"] == "cancelled"
    assert as_user.post(f"{at}/cancel").status_code == 409
    assert as_user.get(f"/studies/{key}/trials").json()["count"] == 1
    assert as_user.get("/studies").json()["items"][0]["id"] == key


def test_an_ended_trial_gives_effects_with_their_intervals(as_user: Caller) -> None:
    trial = factories.trial(factories.study())
    result = as_user.get(f"/trials/{trial.pk}").json()["result"]
    row = next(row for row in result["rows"] if row["arm"] == "arm 2" and row["metric"] == "ttft_ms")
    assert (row["verdict"], row["effect"], row["repeats"]) == ("better", "ratio", 3)
    assert row["effect_low"] <= row["effect_value"] <= row["effect_high"] < 0.95
    assert result["missing"] == []


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"measures": [{"metric": "speed"}]}, "measures", "names no metric"),
        ({"measures": [{"metric": "request_per_s", "statistic": "p50"}]}, "measures", "has no p50"),
        ({"measures": [{"metric": "output_tokens"}]}, "measures", '"better": "lower"'),
        ({"spec": {"load": {"levels": [1], "requests": 0}}}, "arms", "load.requests"),
        ({"spec": {"account": {}}}, "arms", "'account' is none of"),
        ({"prediction": {"calculator": "magic"}}, "prediction", "No such calculator"),
        ({"prediction": {"calculator": "speculative", "output": "table", "as": "ratio"}}, "prediction", "output"),
        (
            {"prediction": {"calculator": "speculative", "output": "speedup", "as": "speedup", "inputs": {"gamma": 3}}},
            "prediction",
            "no input 'gamma'",
        ),
        (
            {
                "prediction": {
                    "calculator": "speculative",
                    "output": "speedup",
                    "as": "speedup",
                    "inputs": {"acceptance": "arm.luck"},
                }
            },
            "prediction",
            "'luck' is neither a metric",
        ),
    ],
)
def test_a_design_that_cannot_be_judged_is_refused_with_the_fix(
    as_user: Caller, changes: dict[str, Any], field: str, words: str
) -> None:
    answer = as_user.post("/studies", asked(**changes))
    assert answer.status_code == 422
    fault = answer.json()["fields"][0]
    assert fault["field"] == field
    assert words in fault["problem"]
    assert not Study.objects.exists()


def test_two_studies_of_one_name_are_refused(as_user: Caller) -> None:
    assert as_user.post("/studies", asked()).status_code == 201
    assert "Choose another" in as_user.post("/studies", asked()).json()["fields"][0]["problem"]


def test_a_schedule_belongs_to_a_benchmark_or_to_a_study(as_user: Caller) -> None:
    study = factories.study()
    made = as_user.post("/schedules", {"study_id": study.pk, "cron": "30 3 * * *"})
    assert (made.status_code, made.json()["study_id"], made.json()["benchmark_id"]) == (201, study.pk, None)
    both = {"study_id": study.pk, "benchmark_id": factories.benchmark().pk, "cron": "30 3 * * *"}
    for body in (both, {"cron": "30 3 * * *"}):
        answer = as_user.post("/schedules", body)
        assert answer.status_code == 422
        assert "one of them" in answer.json()["fields"][0]["problem"]


def test_questions_to_the_arms_are_asked_for_and_answered_over_rest(as_user: Caller) -> None:
    made = as_user.post("/studies", asked(quality={"task_set": "basic", "questions": 10}))
    assert (made.status_code, made.json()["quality"]) == (201, {"task_set": "basic", "questions": 10})
    refused = as_user.post("/studies", asked(name="other", quality={"task_set": "none"})).json()
    assert (refused["fields"][0]["field"], "none called" in refused["fields"][0]["problem"]) == ("quality", True)
    for quality, expected in ((None, {"task_set": "basic"}), (False, {})):
        body = {"template": "weight-quantization", "name": f"of {quality}", "quality": quality}
        assert as_user.post("/studies/ready", body).json()["quality"] == expected
    answers = [factories.quality_answers(), factories.quality_answers(right_every=4)]
    trial = factories.trial(factories.study(quality={"task_set": "basic"}, repeats=1), answers=answers)
    result = as_user.get(f"/trials/{trial.pk}").json()["result"]
    assert [arm["accuracy"] for arm in result["quality"]["arms"]] == [0.34, 0.25]
    assert "too few repeats, with" in result["verdict"]
