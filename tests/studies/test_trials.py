"""Studies carried out by real workers over a real Valkey; the instrument is a stand-in, so that they are quick."""

import os
import signal
from collections.abc import Callable

import pytest

from observatory.runs import dispatch, states
from observatory.runs.models import Run
from observatory.studies import trials, verdict
from observatory.studies.models import Study, Trial
from tests.services.fixtures import both_databases
from tests.services.site import Site, wait_for

Make = Callable[..., Study]


def over(trial: Trial) -> bool:
    trial.refresh_from_db()
    return trial.ended


def order(trial: Trial) -> list[str]:
    return [slot.arm.name for slot in trial.slots.select_related("arm")]


@both_databases
def test_a_study_runs_there_and_back_and_says_what_it_found(site: Site, study: Make) -> None:
    site.worker("bench")
    trial = trials.start(study(repeats=3), "page")
    wait_for(lambda: over(trial), 60)
    assert trial.status == "finished"
    assert order(trial) == ["quick", "slow", "slow", "quick", "quick", "slow"]
    runs = [slot.run for slot in trial.slots.select_related("run")]
    assert [run.trigger for run in runs if run] == ["study"] * 6
    started = [run.started_at for run in runs if run and run.started_at]
    assert started == sorted(started)
    seeds = [run.spec["workload"]["seed"] for run in runs if run]
    assert seeds == [0, 0, 1, 1, 2, 2]
    assert trial.result is not None
    assert trial.result["verdict"] == "worse"
    assert trial.result["answer"].startswith("slow: TTFT p50 is 2.00 times that of quick")
    row = next(row for row in trial.result["rows"] if (row["metric"], row["arm"]) == ("ttft_ms", "slow"))
    assert (row["value"], row["repeats"], row["effect_value"]) == (24, 3, pytest.approx(2))


def test_a_study_goes_on_after_a_worker_was_killed_and_says_what_is_missing(site: Site, study: Make) -> None:
    worker = site.worker("bench")
    trial = trials.start(study(repeats=3, spec={"load": {"levels": [2], "requests": 40}}), "api")

    def second() -> Run | None:
        run = trial.slots.select_related("run").get(index=1).run
        return run if run and run.status == "running" and run.progress.get("ok", 0) > 2 else None

    lost = wait_for(second, 30)
    os.killpg(worker.pid, signal.SIGKILL)
    site.worker("bench", "again")
    site.worker("control")
    site.beat()
    wait_for(lambda: over(trial), 90)
    lost.refresh_from_db()
    assert lost.status == "lost"
    assert trial.status == "finished"
    found = verdict.of(trial)
    assert [(missing.arm, missing.repeat, missing.run) for missing in found.missing] == [("slow", 1, lost.pk)]
    assert "lost" in found.missing[0].reason
    effect = found.rows[0].cells[1].effect
    assert effect is not None
    assert (effect.word, effect.estimate and effect.estimate.n) == ("too few repeats", 2)


def test_cancel_stops_the_run_and_queues_no_other(site: Site, study: Make) -> None:
    site.worker("bench")
    trial = trials.start(study(spec={"load": {"levels": [2], "requests": 1000}}), "page")
    first = wait_for(lambda: trial.slots.get(index=0).run, 10)
    wait_for(lambda: Run.objects.get(pk=first.pk).status == "running", 20)
    assert trials.cancel(trial)
    assert not trials.cancel(trial)
    wait_for(lambda: Run.objects.get(pk=first.pk).status == "cancelled", 20)
    trials.advance_all()
    trials.run_ended(first.pk)
    assert Run.objects.count() == 1
    trial.refresh_from_db()
    assert trial.status == "cancelled"
    assert trial.result
    assert trial.result["comparable"] is False


def test_an_arm_that_fails_is_not_tried_again_and_the_trial_fails_with_its_reason(site: Site, study: Make) -> None:
    site.worker("bench")
    trial = trials.start(study(("steady", "unusable"), repeats=3), "page")
    wait_for(lambda: over(trial), 60)
    assert trial.status == "failed"
    assert Run.objects.filter(status="failed").count() == 1
    assert Run.objects.filter(status="finished").count() == 3
    found = verdict.of(trial)
    assert {missing.arm for missing in found.missing} == {"slow"}
    assert all("Nothing listens" in missing.reason for missing in found.missing)
    assert found.word == "cannot be compared"


def test_a_study_is_carried_out_once_at_a_time(study: Make) -> None:
    found = study()
    first = trials.start(found, "page")
    with pytest.raises(trials.Busy) as busy:
        trials.start(found, "schedule")
    assert busy.value.trial == first
    trials.cancel(first)
    assert trials.start(found, "page").pk != first.pk


def test_advancing_twice_queues_one_run(study: Make) -> None:
    trial = trials.start(study(), "page")
    trials.advance(trial.pk)
    trials.advance_all()
    assert Run.objects.count() == 1
    states.request_cancel(Run.objects.get().pk)
    trials.run_ended(Run.objects.get().pk)
    trials.run_ended(Run.objects.order_by("pk")[0].pk)
    assert Run.objects.count() == 2


def test_the_order_at_random_is_drawn_from_the_seed_and_kept(study: Make) -> None:
    found = study(order="random", repeats=8, seed=3)
    first = trials.start(found, "page")
    drawn = order(first)
    trials.cancel(first)
    assert order(trials.start(found, "page")) == drawn
    assert drawn != ["quick", "slow", "slow", "quick"] * 4
    assert [sorted(drawn[i : i + 2]) for i in range(0, 16, 2)] == [["quick", "slow"]] * 8


def test_what_the_endpoint_no_longer_allows_is_noted_at_its_turn(study: Make) -> None:
    found = study()
    arm = found.arms.get(index=1)
    arm.deployment.endpoint.billing = "tokens"
    arm.deployment.endpoint.save()
    trial = trials.start(found, "page")
    run = trial.slots.get(index=0).run
    assert run is not None
    states.request_cancel(run.pk)
    trials.advance(trial.pk)
    assert "paid by the token" in trial.slots.get(index=1).note
    dispatch.sweep()
