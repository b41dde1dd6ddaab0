import os
import signal
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now

from observatory import tasks
from observatory.benchmarks.models import Benchmark
from observatory.runs import dispatch, ingest, states
from observatory.runs.models import Run
from tests.services.site import Site

Make = Callable[..., Benchmark]


def messages(site: Site) -> int:
    return int(site.valkey.client().llen("observatory:bench"))


def queue(asked: Benchmark) -> Run:
    return states.queue(asked, Run.Trigger.PAGE)


def long_ago(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(dispatched_at=Now() - timedelta(seconds=61))


def test_a_published_run_is_one_message_that_holds_its_id_alone(site: Site, benchmark: Make) -> None:
    run = queue(benchmark(key="sk-canary-in-no-message"))
    assert dispatch.publish(run)
    run.refresh_from_db()
    assert run.dispatched_at
    message = site.valkey.client().lindex("observatory:bench", 0)
    assert message
    assert b"sk-canary" not in message
    dispatch.sweep()
    assert messages(site) == 1


def test_a_message_that_led_to_nothing_for_a_minute_is_sent_again(site: Site, benchmark: Make) -> None:
    run = queue(benchmark())
    dispatch.publish(run)
    site.valkey.client().flushall()
    long_ago(run)
    dispatch.sweep()
    assert messages(site) == 1


def test_only_the_oldest_run_of_an_endpoint_is_woken_and_none_of_a_busy_one(site: Site, benchmark: Make) -> None:
    asked = benchmark()
    first, second = queue(asked), queue(asked)
    other = queue(benchmark(name="other"))
    dispatch.sweep()
    assert messages(site) == 2
    held = states.claim(first.pk, "w")
    assert held
    for run in (second, other):
        long_ago(run)
    dispatch.sweep()
    assert messages(site) == 3
    states.end(held, Run.Status.FINISHED)
    dispatch.sweep()
    second.refresh_from_db()
    assert second.dispatched_at
    assert messages(site) == 4


def test_a_run_waiting_for_its_endpoint_does_not_hold_up_its_accelerator_group(site: Site, benchmark: Make) -> None:
    busy = benchmark(name="busy")
    states.claim(queue(busy).pk, "w")
    waiting = queue(busy)
    Run.objects.filter(pk=waiting.pk).update(accelerator_group="gpu-1")
    free = queue(benchmark(name="free", group="gpu-1"))
    dispatch.sweep()
    free.refresh_from_db()
    waiting.refresh_from_db()
    assert free.dispatched_at
    assert waiting.dispatched_at is None


def test_a_dead_broker_is_told_at_once(site: Site, benchmark: Make) -> None:
    site.valkey.kill()
    run = queue(benchmark())
    begun = time.monotonic()
    assert dispatch.publish(run) is False
    assert time.monotonic() - begun < 3
    dispatch.sweep()


def test_a_hung_broker_is_told_within_seconds(site: Site, benchmark: Make) -> None:
    run = queue(benchmark())
    assert site.valkey.pid
    os.kill(site.valkey.pid, signal.SIGSTOP)
    begun = time.monotonic()
    try:
        assert dispatch.publish(run) is False
    finally:
        os.kill(site.valkey.pid, signal.SIGCONT)
    assert time.monotonic() - begun < 10


def test_one_run_that_cannot_be_salvaged_does_not_hold_up_the_others(
    site: Site, benchmark: Make, settings: Any
) -> None:
    runs = [queue(benchmark(name=name)) for name in ("one", "two")]
    for run in runs:
        states.claim(run.pk, "w")
    settings.RUN_HEARTBEAT_S = -1.0
    Run.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    dispatch.reap()
    (site.directory / "media" / "runs" / str(runs[0].pk)).mkdir(parents=True)
    (site.directory / "media" / "runs" / str(runs[0].pk) / "1").write_text("a file where a folder should be")
    dispatch.reap()
    assert list(Run.objects.filter(status="lost")) == [runs[1]]
    for _ in range(dispatch.SALVAGE_TRIES):
        dispatch.reap()
    runs[0].refresh_from_db()
    assert (runs[0].status, runs[0].reason_code, runs[0].valid) == ("lost", "worker_lost", False)
    assert f"could not be read and stay in storage as runs/{runs[0].pk}/1" in runs[0].reason


def test_rows_that_crash_their_reader_are_given_up_after_a_few_tries(
    site: Site, benchmark: Make, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        """Stands for a signal that ends the process."""

    def crash(*_: Any) -> None:
        raise Crash

    run = queue(benchmark())
    states.claim(run.pk, "w")
    settings.RUN_HEARTBEAT_S = -1.0
    Run.objects.update(lease_expires_at=Now() - timedelta(seconds=1))
    dispatch.reap()
    monkeypatch.setattr(ingest, "salvage", crash)
    for _ in range(dispatch.SALVAGE_TRIES):
        with pytest.raises(Crash):
            dispatch.reap()
    dispatch.reap()
    run.refresh_from_db()
    assert run.status == "lost"


def test_a_tick_wakes_what_waits_though_the_search_for_lost_runs_fails(
    site: Site, benchmark: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue(benchmark())

    def fail() -> None:
        raise RuntimeError("of any kind")

    monkeypatch.setattr(dispatch, "reap", fail)
    tasks.tick()
    assert messages(site) == 1
