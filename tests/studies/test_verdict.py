"""Verdicts in words: what decides, what does not, and why."""

from typing import Any

import pytest

from observatory.runs.models import Run
from observatory.studies import verdict, words
from observatory.studies.findings import Cell, Effect, Word
from observatory.studies.statistics import Estimate
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _apart(tmp_path: Any, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MEDIA_ROOT = tmp_path
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{tmp_path}/none.sock")


def first_effect(ttft_ms: tuple[float, float], **fields: Any) -> Effect:
    study = factories.study(**fields)
    effect = verdict.of(factories.trial(study, ttft_ms)).rows[0].cells[1].effect
    assert effect is not None
    return effect


@pytest.mark.parametrize(
    ("ttft_ms", "fields", "word"),
    [
        ((80.0, 40.0), {}, Word.BETTER),
        ((80.0, 120.0), {}, Word.WORSE),
        ((80.0, 81.0), {"smallest_effect_percent": 5}, Word.NO_MATTER),
        ((80.0, 40.0), {"repeats": 2}, Word.TOO_FEW),
        ((80.0, 40.0), {"repeats": 1}, Word.TOO_FEW),
    ],
)
def test_the_verdict_follows_from_the_interval_and_from_what_matters(
    ttft_ms: tuple[float, float], fields: dict[str, Any], word: Word
) -> None:
    assert first_effect(ttft_ms, **fields).word == word


def test_a_decided_effect_that_may_be_too_small_says_so() -> None:
    effect = first_effect((80.0, 60.0), smallest_effect_percent=90)
    assert effect.word == Word.NO_MATTER
    effect = first_effect((80.0, 60.0), smallest_effect_percent=24)
    assert effect.estimate is not None
    assert (effect.word, effect.reason) in (
        (Word.BETTER, ""),
        (Word.BETTER, "it may be smaller than what matters"),
    )


def test_energy_of_two_boundaries_is_not_compared_and_the_rest_is() -> None:
    study = factories.study()
    trial = factories.trial(study)
    stage = trial.slots.select_related("run").get(index=1).run.stages.get()  # type: ignore[union-attr]
    stage.energy = {**(stage.energy or {}), "boundary": "another boundary"}
    stage.save()
    rows = {row.measure.metric.key: row for row in verdict.of(trial).rows}
    energy = rows["wh_per_query"].cells[1].effect
    assert energy is not None
    assert energy.word == Word.REFUSED
    assert "boundaries" in energy.reason
    assert rows["ttft_ms"].cells[1].effect.word == Word.BETTER  # type: ignore[union-attr]


def test_what_the_server_put_back_is_told_with_how_many_it_computed_at_once() -> None:
    trial = factories.trial(factories.study())
    for slot in trial.slots.select_related("run").filter(arm__index=1):
        assert slot.run is not None
        slot.run.summary["stages"][0]["server"] = {
            "shares": {"prefix_hit_share": None},
            "gauges": {"requests_running": {"mean": 2.5, "max": 4.0}},
            "counters": {"preemptions": 12.0},
        }
        slot.run.save()
    told = [note for note in verdict.of(trial).notes if "put back" in note]
    assert told == ["arm 2: by the server's own counters 2.50 requests were computed at once and 12.0 put back."]


def test_runs_that_are_not_valid_are_left_out_and_named() -> None:
    study = factories.study(repeats=4)
    trial = factories.trial(study)
    slot = trial.slots.select_related("run").get(index=0)
    Run.objects.filter(pk=slot.run_id).update(valid=False, status="lost", reason="The worker fell silent.")
    found = verdict.of(trial)
    assert [(missing.arm, missing.repeat) for missing in found.missing] == [("arm 1", 1)]
    assert "fell silent" in found.missing[0].reason
    effect = found.rows[0].cells[1].effect
    assert effect is not None
    assert effect.estimate is not None
    assert effect.estimate.n == 3
    assert any("1 of the turns gave nothing" in note for note in found.notes)


def test_of_several_arms_the_answer_tells_of_the_largest_decided_effect() -> None:
    study = factories.study((80.0, 78.0, 40.0))
    found = verdict.of(factories.trial(study, (80.0, 78.0, 40.0)))
    assert found.answer.startswith("arm 3: TTFT p50 is")
    assert "for all 2 comparisons together" in found.notes[0]


def test_along_a_factor_the_answer_tells_of_its_end() -> None:
    study = factories.study((40.0, 160.0, 82.0), factor="Prompt tokens")
    found = verdict.of(factories.trial(study, (40.0, 160.0, 82.0)))
    assert found.answer.startswith("arm 3: TTFT p50 is 2.0")
    assert "times that of arm 1" in found.answer


@pytest.mark.parametrize(
    ("estimate", "change", "interval"),
    [
        (Estimate(2.1, 1.985, 2.22, 3), "2.10 times", "1.99 to 2.22 times"),
        (Estimate(1.71, 0.04, 77.0, 3), "1.71 times", "0.0400 to 77.0 times"),
        (Estimate(0.42, 0.38, 0.45, 3), "58.0 % lower", "62.0 % lower to 55.0 % lower"),
        (Estimate(1.2, None, None, 1), "20.0 % higher", ""),
    ],
)
def test_an_effect_and_its_bounds_are_told_in_the_same_way(estimate: Estimate, change: str, interval: str) -> None:
    effect = Effect(Word.UNCLEAR, estimate, True)
    assert (words.change(effect, "ms"), words.interval(effect, "ms")) == (change, interval)


def predicted(prediction: dict[str, Any], **fields: Any) -> Cell:
    study = factories.study(prediction=prediction, **fields)
    return verdict.of(factories.trial(study)).rows[0].cells[1]


def test_a_predicted_ratio_starts_from_the_measured_baseline() -> None:
    prediction = {
        "calculator": "prefix-cache",
        "output": "ttft_hit_ms",
        "as": "ratio",
        "inputs": {"prompt_tokens": 1000, "shared_tokens": 500},
    }
    study = factories.study(prediction=prediction)
    study.arms.filter(index=0).update(theory={"shared_tokens": 0})
    first, second = verdict.of(factories.trial(study)).rows[0].cells
    assert first.mean is not None
    assert first.predicted is not None
    assert second.predicted is not None
    assert first.predicted.value == pytest.approx(first.mean.value)
    assert second.predicted.value == pytest.approx(first.mean.value / 2)
    assert second.measured_over_predicted == pytest.approx(1, rel=0.02)


def test_a_prediction_takes_inputs_from_what_was_measured_and_says_so() -> None:
    inputs = {"prefill_tokens_per_s": "baseline.prefill_tokens_per_s * 2", "prompt_tokens": 1000, "shared_tokens": 0}
    cell = predicted({"calculator": "prefix-cache", "output": "ttft_hit_ms", "as": "value", "inputs": inputs})
    assert cell.predicted is not None
    assert cell.predicted.measured_inputs == ("prefill_tokens_per_s",)
    assert float(cell.predicted.inputs["prefill_tokens_per_s"]) > 0
    assert cell.predicted.value == pytest.approx(1e6 / float(cell.predicted.inputs["prefill_tokens_per_s"]))


def test_a_prediction_that_lacks_a_measured_number_says_which() -> None:
    inputs = {"acceptance": "arm.accepted_share"}
    cell = predicted({"calculator": "speculative", "output": "speedup", "as": "speedup", "inputs": inputs})
    assert cell.predicted is not None
    assert (cell.predicted.value, cell.predicted.reason) == (None, "arm 2 has no measured accepted_share")
