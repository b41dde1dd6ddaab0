"""Quality as a part of a study: asked once in a trial, judged by pairs, and never in the way of the speed numbers."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from observatory.quality import evaluations, imports
from observatory.quality.models import QualityResult
from observatory.runs import ingest, states
from observatory.runs.ingest import Ending, Results
from observatory.runs.models import Run
from observatory.studies import questions, trials, verdict
from observatory.studies.findings import Result, Word
from observatory.studies.measures import DesignError
from observatory.studies.models import Study, Trial
from runners.quality.answers import Answer
from runners.quality.tasks import built_in
from tests import factories
from tests.factories import quality_answers, quality_result

pytestmark = pytest.mark.django_db
ASKED = {"task_set": "basic"}


@pytest.fixture(autouse=True)
def _apart(tmp_path: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{tmp_path}/none.sock")


def judged(second: list[Answer], repeats: int = 1, **fields: Any) -> Result:
    study = factories.study(quality=ASKED, repeats=repeats, **fields)
    return verdict.of(factories.trial(study, answers=[quality_answers(), second]))


def bounds(found: Result) -> tuple[float, float]:
    """The interval of the second arm's difference, in points."""
    row = next(row for row in verdict.flat_rows(found) if (row["metric"], row["arm"]) == ("accuracy", "arm 2"))
    return row["effect_low"], row["effect_high"]


def flipped(lost: int, won: int) -> list[Answer]:
    """The usual answers of which so many right ones are wrong, and wrong ones right."""
    found = []
    for answer in quality_answers():
        if answer.correct and lost:
            lost, answer = lost - 1, replace(answer, correct=False, text="No.")
        elif not answer.correct and won:
            won, answer = won - 1, replace(answer, correct=True, text="Yes.")
        found.append(answer)
    return found


def test_questions_are_put_to_each_arm_once_after_all_repeats() -> None:
    study = factories.study(quality=ASKED, repeats=2)
    trial = trials.create(study, "page")
    slots = list(trial.slots.select_related("arm"))
    assert [slot.kind for slot in slots] == ["load"] * 4 + ["quality"] * 2
    assert [str(slot) for slot in slots[4:]] == ["quality, arm 1", "quality, arm 2"]


def test_arms_that_would_be_asked_the_same_share_one_evaluation() -> None:
    study = factories.study((80.0, 40.0, 60.0), quality=ASKED)
    one = study.arms.get(index=0).deployment
    study.arms.update(deployment=one)
    study.arms.filter(index=2).update(spec={"target": {"extra_body": {"think": True}}})
    asked = questions.asked_once(study, list(study.arms.all()))
    assert [arm.name for arm in asked] == ["arm 1", "arm 3"]
    assert questions.target(study, asked[1].spec) == {"extra_body": {"think": True}}


@pytest.mark.parametrize(
    ("lost", "won", "smallest", "word"),
    [
        (20, 0, 5, Word.WORSE),
        (0, 20, 5, Word.BETTER),
        (6, 6, 5, Word.UNCLEAR),
        (1, 1, 5, Word.NO_MATTER),
        (0, 0, 5, Word.IDENTICAL),
        (5, 0, 0, Word.UNCLEAR),
    ],
)
def test_quality_is_judged_by_pairs(lost: int, won: int, smallest: float, word: Word) -> None:
    effect = judged(flipped(lost, won), smallest_effect_percent=smallest).quality.arms[1].effect
    assert effect is not None
    assert effect.estimate is not None
    assert (effect.word, effect.estimate.value) == (word, pytest.approx(won - lost))
    assert effect.estimate.low is not None
    assert effect.estimate.low <= won - lost


def test_faster_but_worse_is_the_verdict_with_its_reason() -> None:
    found = judged(flipped(20, 2), repeats=3)
    assert found.word == "better, but worse answers"
    assert "Quality on basic: 16.0 % right against 34.0 %, 18.0 points lower" in found.answer
    assert "McNemar's p = 0.00012" in found.answer
    assert found.answer.endswith("Altogether: better, but worse answers.")


def test_identical_greedy_answers_are_said_to_be_so() -> None:
    found = judged(quality_answers())
    assert found.word == "too few repeats, with identical answers"
    assert "all 100 greedy answers are identical to those of the baseline" in found.answer


def test_of_several_arms_the_intervals_hold_together() -> None:
    two = bounds(judged(flipped(6, 0)))
    study = factories.study((80.0, 40.0, 60.0), quality=ASKED, repeats=1)
    answers = [quality_answers(), flipped(6, 0), quality_answers()]
    three = bounds(verdict.of(factories.trial(study, (80.0, 40.0, 60.0), answers=answers)))
    assert two[1] < 0 < three[1]
    assert three[0] < two[0]


def ended(trial: Trial) -> Trial:
    """What is queued ends: load runs well, evaluations not at all."""
    while run := Run.objects.filter(status="queued").first():
        held = states.claim(run.pk, "worker")
        assert held is not None
        assert run.kind == Run.Kind.QUALITY
        ingest.close(held, Ending(Run.Status.FAILED, "connect_refused", "Nothing listens."), Results())
        trials.run_ended(run.pk)
    trial.refresh_from_db()
    return trial


def test_a_failed_evaluation_loses_no_speed_numbers_and_says_why() -> None:
    study = factories.study(quality=ASKED)
    trial = factories.trial(study, runs=6)
    trials.advance(trial.pk)
    trial = ended(trial)
    assert trial.status == "finished"
    assert QualityResult.objects.count() == 2
    found = verdict.of(trial)
    assert found.rows[0].cells[1].effect is not None
    assert found.rows[0].cells[1].effect.word == Word.BETTER
    assert found.word == "better, with quality not known"
    assert "Nothing listens" in found.quality.arms[0].reason
    assert "Nothing listens" in found.answer


def test_asking_again_makes_a_failed_evaluation_good() -> None:
    study = factories.study(quality=ASKED, repeats=1)
    trial = factories.trial(study, runs=2)
    first, second = (arm.deployment for arm in study.arms.all())
    quality_result(first)
    trials.advance(trial.pk)
    trial = ended(trial)
    assert not verdict.of(trial).quality.known
    quality_result(first)
    quality_result(second, flipped(20, 0))
    arms = verdict.of(trial).quality.arms
    assert [arm.in_trial for arm in arms] == [False, False]
    assert "asked again" in arms[0].reason
    assert arms[1].effect is not None
    assert arms[1].effect.word == Word.WORSE


def test_an_arm_that_could_not_be_measured_is_not_asked() -> None:
    study = factories.study(quality=ASKED, repeats=1)
    trial = factories.trial(study, runs=2)
    second = trial.slots.filter(kind="load", arm__index=1)
    Run.objects.filter(slot__in=second).update(status="failed", valid=False, reason="No engine.")
    trials.advance(trial.pk)
    ended(trial)
    assert QualityResult.objects.count() == 1
    assert "No engine." in trial.slots.get(kind="quality", arm__index=1).note


def test_the_set_that_most_deployments_were_asked_stands_for_a_study_that_asks_none() -> None:
    study = factories.study(repeats=1)
    trial = factories.trial(study)
    assert verdict.of(trial).word == "too few repeats"
    assert not verdict.of(trial).quality.known
    first, second = (arm.deployment for arm in study.arms.all())
    quality_result(first)
    quality_result(second, flipped(20, 0))
    found = verdict.of(trial)
    assert (found.quality.task_set, found.quality.asked) == ("basic", False)
    assert found.word == "too few repeats, with worse answers"
    assert "known of the deployments from outside" in found.notes[-1]


def lm_eval(value: float, n: int = 400) -> bytes:
    error = (value * (1 - value) / n) ** 0.5
    results = {"arc_easy": {"acc,none": value, "acc_stderr,none": error}}
    return orjson.dumps({"results": results, "n-samples": {"arc_easy": {"original": n, "effective": n}}})


def test_results_of_lm_eval_can_be_chosen_and_are_compared_by_their_intervals() -> None:
    study = factories.study(quality=ASKED, repeats=1)
    trial = factories.trial(study, answers=[quality_answers(), quality_answers()])
    for arm, value in zip(study.arms.all(), (0.62, 0.42), strict=True):
        kept = imports.add(lm_eval(value), arm.deployment, None)
    assert verdict.of(trial).quality.asked
    found = verdict.of(trial, kept.tasks_sha256)
    assert (found.quality.task_set, found.quality.asked) == ("lm-eval: arc_easy", False)
    effect = found.quality.arms[1].effect
    assert effect is not None
    assert effect.estimate is not None
    assert effect.word == Word.WORSE
    # two shares of 400: 1.96 sqrt(0.62 0.38 / 400 + 0.42 0.58 / 400) = 6.8 points
    assert (effect.estimate.low, effect.estimate.high) == pytest.approx((-26.8, -13.2), abs=0.05)
    assert {name for _, name in found.quality.sets} == {"basic", "lm-eval: arc_easy"}


def test_an_arm_that_asks_otherwise_takes_no_result_of_its_deployment_and_gives_none() -> None:
    study = factories.study(quality=ASKED, repeats=1)
    study.arms.filter(index=1).update(spec={"target": {"extra_body": {"think": True}}})
    quality_result(study.arms.get(index=1).deployment)
    trial = factories.trial(study, runs=2)
    assert verdict.of(trial).quality.arms[1].found is None
    queued = evaluations.queue(
        study.arms.get(index=1).deployment, "basic", "study", target={"extra_body": {"think": True}}
    )
    QualityResult.objects.filter(pk=queued.pk).update(value=0.5)
    assert queued.job is not None
    assert queued.job.spec["target"]["extra_body"] == {"think": True}
    assert queued not in QualityResult.objects.known()


def test_rows_for_programs_carry_quality_in_the_same_columns() -> None:
    result = judged(flipped(20, 2))
    rows = verdict.flat_rows(result)
    assert len({tuple(row) for row in rows}) == 1
    accuracy = next(row for row in rows if (row["metric"], row["arm"]) == ("accuracy", "arm 2"))
    assert (accuracy["value"], accuracy["questions"], accuracy["verdict"]) == (16, 100, "worse")
    assert accuracy["effect_value"] == -18
    told = verdict.to_json(result)["quality"]
    assert told["arms"][1]["agreement"]["flips"]["right_to_wrong"] == 20
    assert next(row["value"] for row in rows if row["metric"] == "mcnemar_p" and row["value"]) < 0.001


@pytest.mark.parametrize(
    ("quality", "words"),
    [
        ({"task_set": "none"}, "none called"),
        ({"task_set": "basic", "questions": 101}, "has 100; give fewer"),
        ({"set": "basic"}, "no such field"),
        ({"concurrency": 0}, "concurrency"),
    ],
)
def test_questions_that_cannot_be_put_are_refused(quality: dict[str, Any], words: str) -> None:
    with pytest.raises(DesignError, match=words) as refused:
        factories.study(quality=quality)
    assert refused.value.field == "quality"
    assert not Study.objects.exists()


def test_a_part_of_a_set_is_spread_over_it_and_has_a_name_of_its_own() -> None:
    asked = questions.read(Study(quality={"task_set": "basic", "questions": 10}))
    assert asked is not None
    chosen = asked.chosen()
    assert chosen.name == "basic, 10 of 100"
    assert [item["id"] for item in chosen.items] == [item["id"] for item in built_in().items[::10]]
