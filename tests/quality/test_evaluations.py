"""Evaluations as rows: queued, kept apart from load runs, taken in, compared."""

import orjson
import pytest

from observatory.catalog.models import Endpoint
from observatory.compare.comparison import Verdict, compare
from observatory.compare.sources import stage_result, with_quality
from observatory.quality import evaluations, imports, sets
from observatory.quality.models import QualityResult
from observatory.runs import dispatch, ingest, states
from observatory.runs.ingest import Ending, Results
from observatory.runs.models import Run
from runners.quality.tasks import built_in
from runners.strict_json import SpecError
from tests import factories
from tests.factories import quality_answers, quality_job, quality_result

pytestmark = pytest.mark.django_db
LINE = {"id": "a", "kind": "exact", "prompt": "?", "answer": "yes"}


def test_an_evaluation_and_a_load_run_never_touch_one_endpoint_together() -> None:
    load = factories.queued_run()
    job = quality_job(load.deployment).job
    assert job is not None
    assert states.claim(job.pk, "worker 1") is not None
    assert states.claim(load.pk, "worker 2") is None
    assert dispatch._claims(job) & dispatch._claims(load)
    job.refresh_from_db()
    assert states.end(job, Run.Status.FINISHED)
    assert states.claim(load.pk, "worker 2") is not None
    other = quality_job(load.deployment).job
    assert other is not None
    assert states.claim(other.pk, "worker 1") is None


def test_cards_in_one_group_are_kept_apart_too() -> None:
    load = factories.queued_run(accelerator_group="rack 1")
    other = factories.benchmark().deployment
    other.accelerator_group = "rack 1"
    other.save()
    job = quality_job(other).job
    assert job is not None
    assert states.claim(load.pk, "worker 1") is not None
    assert states.claim(job.pk, "worker 2") is None


def test_what_a_job_found_is_taken_in_once_it_ended_well() -> None:
    result = quality_job(factories.benchmark().deployment)
    evaluations.take_in()
    result.refresh_from_db()
    assert (result.value, result.pending) == (None, True)
    done = quality_result(result.deployment)
    assert (done.value, done.n, done.pending) == (0.34, 100, False)
    assert (done.low, done.high) == pytest.approx((0.2548, 0.4373), abs=1e-3)
    assert done.measured_at is not None


def test_a_job_that_failed_gives_no_number() -> None:
    result = quality_job(factories.benchmark().deployment, status=Run.Status.RUNNING, epoch=1)
    assert result.job is not None
    assert ingest.close(result.job, Ending(Run.Status.FAILED, "connect_refused", "Nothing listens."), Results())
    evaluations.take_in()
    result.refresh_from_db()
    assert (result.value, result.job.status) == (None, "failed")


def test_a_reference_that_comes_later_is_compared_when_it_is_there() -> None:
    first, second = factories.benchmark().deployment, factories.benchmark().deployment
    waiting = quality_result(first, quality_answers(4, changed=5), reference_deployment=second)
    assert waiting.agreement is None
    reference = quality_result(second)
    waiting.refresh_from_db()
    assert waiting.reference == reference
    assert waiting.agreement is not None
    assert waiting.agreement["paired"] == 100
    # of 0, 3, 6, ... and 0, 4, 8, ... 9 are common: 25 right only in the one, 16 only in the other
    assert (waiting.agreement["flips"]["right_to_wrong"], waiting.agreement["flips"]["wrong_to_right"]) == (25, 16)


def test_results_without_kept_answers_are_not_compared() -> None:
    one, other = (quality_result(factories.benchmark().deployment) for _ in range(2))
    assert one.job is not None
    one.job.answers_file.delete()
    assert not evaluations.compare(one, other)


def test_an_evaluation_at_a_paid_endpoint_sets_its_worst_case_aside() -> None:
    deployment = factories.benchmark().deployment
    prices = {"billing": "tokens", "input_usd_per_mtok": 1, "output_usd_per_mtok": 4}
    Endpoint.objects.filter(pk=deployment.endpoint_id).update(**prices)
    deployment.refresh_from_db()
    job = evaluations.queue(deployment, "basic", Run.Trigger.API).job
    assert job is not None
    longest = max(task.most_input_tokens for task in built_in().tasks)
    prompts, answers = 100 * (int(longest * 1.25) + 64) + 10_000, 100 * 48 + 160
    assert float(job.reserved_usd or 0) == pytest.approx((prompts * 1 + answers * 4) / 1e6, abs=0.01)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task_set": "none"}, "none called"),
        ({"concurrency": 0}, "concurrency"),
        ({"output_tokens": 0}, "output_tokens"),
    ],
)
def test_what_cannot_be_asked_is_refused_and_nothing_is_queued(change: dict[str, object], problem: str) -> None:
    deployment = factories.benchmark().deployment
    with pytest.raises(SpecError, match=problem):
        evaluations.queue(deployment, **{"task_set": "basic", "trigger": Run.Trigger.PAGE, **change})  # type: ignore[arg-type]
    assert not Run.objects.exists()


def test_an_evaluation_stands_beside_a_run_of_its_own_deployment_only() -> None:
    with pytest.raises(SpecError, match="same deployment"):
        evaluations.queue(factories.benchmark().deployment, "basic", Run.Trigger.PAGE, beside=factories.finished_run())


def test_an_uploaded_set_is_asked_under_its_name_and_never_changes() -> None:
    kept = sets.add("mine", orjson.dumps(LINE), None)
    assert sets.names() == ["basic", "mine"]
    result = evaluations.queue(factories.benchmark().deployment, "mine", Run.Trigger.PAGE)
    assert (result.task_set, result.tasks_sha256) == ("mine", kept.sha256)
    for name in ("mine", "basic", ""):
        with pytest.raises(SpecError, match="name"):
            sets.add(name, orjson.dumps(LINE), None)


def test_results_of_lm_eval_stand_beside_our_own() -> None:
    file = {"results": {"arc_easy": {"acc,none": 0.62, "acc_stderr,none": 0.0485}}, "date": 1764000000.5}
    kept = imports.add(orjson.dumps(file), factories.benchmark().deployment, None)
    assert (kept.source, kept.task_set, kept.metric) == ("lm-eval", "lm-eval: arc_easy", "acc, arc_easy")
    assert (kept.value, kept.low) == (0.62, pytest.approx(0.5249, abs=1e-4))
    assert kept.measured_at is not None
    with pytest.raises(SpecError, match="results"):
        imports.add(b"{}", kept.deployment, None)
    assert QualityResult.objects.count() == 1


def test_the_compare_room_judges_accuracy_by_pairs() -> None:
    runs = [factories.finished_run() for _ in range(2)]
    quality_result(runs[0].deployment, quality_answers(2))
    quality_result(runs[1].deployment, quality_answers(4))
    stages = [run.stages.get(index=0) for run in runs]
    compared = compare(with_quality([stage_result(stage, f"run {stage.run_id}") for stage in stages], runs))
    row = next(row for row in compared.rows if row.metric.key == "accuracy")
    assert [cell.number.value for cell in row.cells if cell.number] == [50.0, 25.0]
    cell = row.cells[1]
    assert cell.verdict is Verdict.WORSE
    # 25 of 100 flipped, all from right to wrong: p12 = 1/102, p21 = 26/102
    assert (cell.low, cell.high) == pytest.approx((-33.1, -15.9), abs=0.2)
    assert "task set basic" in " ".join(compared.notes)


def test_accuracies_on_different_sets_are_never_set_against_each_other() -> None:
    runs = [factories.finished_run() for _ in range(2)]
    quality_result(runs[0].deployment)
    quality_result(runs[1].deployment, tasks_sha256="0" * 64)
    stages = [run.stages.get(index=0) for run in runs]
    results = with_quality([stage_result(stage, str(stage.run_id)) for stage in stages], runs)
    assert sum(("accuracy", "mean") in result.numbers for result in results) == 1
