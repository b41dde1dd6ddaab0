from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from threading import Barrier, Thread
from time import sleep
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Site as Place
from observatory.pages.commands import bench_command
from observatory.runs import spec, states
from observatory.runs.models import Run
from runners.spec import RunSpec, SpecError
from tests.services.fixtures import both_databases

pytestmark = both_databases
Make = Callable[..., Benchmark]


def queue(make: Make, **options: Any) -> Run:
    return states.queue(make(**options), Run.Trigger.PAGE)


def test_a_queued_run_holds_a_whole_specification_and_the_setup_of_its_day(benchmark: Make) -> None:
    asked = benchmark(key="sk-not-in-the-spec")
    asked.slo_ttft_ms = 500
    asked.deployment.usd_per_hour = Decimal("2.5")
    asked.deployment.price_source = "invoice of May"
    asked.deployment.site = Place.objects.create(slug="hall", name="Hall")
    day = date(2026, 1, 1)
    asked.deployment.site.factors.create(effective_from=day, pue=1.2, source="meter")
    asked.deployment.site.factors.create(effective_from=date(2099, 1, 1), pue=1.1)
    run = states.queue(asked, Run.Trigger.API)
    spec = RunSpec.from_json(run.spec)
    assert (spec.load.levels, spec.load.requests, spec.slo.ttft_ms) == ((2.0,), 10, 500)
    assert (spec.account.usd_per_hour, spec.account.price_source) == (2.5, "invoice of May")
    assert (spec.account.pue, spec.account.pue_source) == (1.2, "meter")
    assert spec.target.api_key_env
    assert "sk-not-in-the-spec" not in str(run.spec) + str(run.setup)
    assert (run.setup["site"]["pue"], run.setup["site"]["effective_from"]) == (1.2, "2026-01-01")


def test_two_runs_of_one_benchmark_ask_the_same_with_different_salts(benchmark: Make) -> None:
    asked = benchmark()
    first, second = (states.queue(asked, Run.Trigger.PAGE) for _ in range(2))
    assert first.spec_sha256 == second.spec_sha256
    assert first.spec["salt"] != second.spec["salt"]


def test_a_benchmark_that_cannot_be_run_is_refused_with_the_field_to_change(benchmark: Make) -> None:
    asked = benchmark()
    asked.load["levels"] = [1.5]
    with pytest.raises(SpecError, match=r"load\.levels"):
        states.queue(asked, Run.Trigger.PAGE)
    assert not Run.objects.exists()


def test_of_eight_workers_that_claim_one_run_one_gets_it(benchmark: Make) -> None:
    run = queue(benchmark)
    start, won = Barrier(8), []

    def claim() -> None:
        start.wait(10)
        if states.claim(run.pk, "w"):
            won.append(1)
        connection.close()

    threads = [Thread(target=claim) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    run.refresh_from_db()
    assert (len(won), run.epoch, run.status) == (1, 1, "running")


def test_a_second_run_on_a_busy_endpoint_stays_queued_and_undispatched(benchmark: Make) -> None:
    asked = benchmark()
    first, second = (states.queue(asked, Run.Trigger.PAGE) for _ in range(2))
    Run.objects.filter(pk=second.pk).update(dispatched_at=Now())
    held = states.claim(first.pk, "a")
    assert held
    assert states.claim(second.pk, "b") is None
    second.refresh_from_db()
    assert (second.status, second.dispatched_at) == ("queued", None)
    assert states.end(held, Run.Status.FINISHED)
    assert states.claim(second.pk, "b")


def test_runs_that_share_an_accelerator_group_never_overlap(benchmark: Make) -> None:
    first = queue(benchmark, name="one", group="gpu-1")
    second = queue(benchmark, name="two", group="gpu-1")
    elsewhere = queue(benchmark, name="three", group="gpu-2")
    assert states.claim(first.pk, "a")
    assert states.claim(second.pk, "b") is None
    assert states.claim(elsewhere.pk, "c")


def test_a_queued_run_is_cancelled_at_once_and_never_claimed(benchmark: Make) -> None:
    run = queue(benchmark)
    assert states.request_cancel(run.pk)
    assert states.claim(run.pk, "w") is None
    run.refresh_from_db()
    assert (run.status, run.reason_code, run.valid) == ("cancelled", "cancelled", False)
    assert run.ended_at
    assert not states.request_cancel(run.pk)


def test_a_renewal_tells_the_worker_of_a_cancel(benchmark: Make) -> None:
    held = states.claim(queue(benchmark).pk, "w")
    assert held
    assert states.renew(held, {"ok": 1}, []) == states.Hold(mine=True, cancel=False)
    assert states.request_cancel(held.pk)
    assert states.renew(held, {"ok": 2}, []) == states.Hold(mine=True, cancel=True)
    held.refresh_from_db()
    assert held.progress == {"ok": 2}


def test_the_late_words_of_a_lost_run_are_refused(benchmark: Make) -> None:
    held = states.claim(queue(benchmark).pk, "w")
    assert held
    assert states.end(held, Run.Status.LOST, reason_code="worker_lost")
    assert states.renew(held, {"ok": 9}, []).mine is False
    assert not states.end(held, Run.Status.FINISHED, valid=True)
    held.refresh_from_db()
    assert (held.status, held.progress, held.valid) == ("lost", {}, None)


def test_a_silent_worker_gets_one_more_heartbeat_before_its_run_is_lost(benchmark: Make, settings: Any) -> None:
    settings.RUN_HEARTBEAT_S = 0.3
    held = states.claim(queue(benchmark).pk, "w")
    assert held
    assert not states.expired()
    Run.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    assert not states.expired()
    held.refresh_from_db()
    assert held.reason_code == states.SILENT
    assert not states.expired()
    sleep(0.4)
    assert [run.pk for run in states.expired()] == [held.pk]


def test_a_worker_that_comes_back_in_time_keeps_its_run(benchmark: Make, settings: Any) -> None:
    settings.RUN_HEARTBEAT_S = 0
    held = states.claim(queue(benchmark).pk, "w")
    assert held
    Run.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    states.expired()
    assert states.renew(held, {}, []).mine
    assert not states.expired()
    assert not states.lose(held, Run.Status.LOST)
    held.refresh_from_db()
    assert (held.status, held.reason_code) == ("running", "")


def test_a_deployment_on_shared_gpus_says_so_in_what_is_asked(benchmark: Make) -> None:
    asked = benchmark()
    assert spec.build(asked).power.shared is False
    asked.deployment.gpu_shared = True
    assert spec.build(asked).power.shared is True
    assert "--gpu-shared" in bench_command(spec.build(asked).to_json())
    assert spec.setup(asked)["gpu_shared"] is True
