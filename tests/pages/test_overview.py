from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from observatory.celery import app
from observatory.schedules.models import Schedule
from tests import factories
from tests.services.site import Site
from tests.services.valkey import Valkey


@pytest.fixture(autouse=True)
def _fresh_cache() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Valkey]:
    valkey = Valkey(tmp_path)
    valkey.start()
    monkeypatch.setitem(app.conf, "broker_url", valkey.url)
    monkeypatch.setitem(app.conf, "broker_read_url", valkey.url)
    yield valkey
    valkey.kill()


def test_what_runs_and_waits_stands_first_with_bar_and_cancel(user_client: Client) -> None:
    factories.failed_run()
    queued = factories.queued_run()
    running = factories.running_run()
    page = user_client.get("/overview/live").content.decode()
    assert page.index(f"Run {running.pk}") < page.index(f"Run {queued.pk}")
    assert f'aria-label="Progress of run {running.pk}"' in page
    assert f'action="/runs/{queued.pk}/cancel"' in page
    assert "2 runs" in page


def test_a_run_that_is_being_cancelled_says_so(user_client: Client) -> None:
    factories.running_run(cancel_requested_at=timezone.now())
    page = user_client.get("/overview/live").content.decode()
    assert "stopping" in page
    assert "/cancel" not in page


def test_next_steps_name_what_is_missing(user_client: Client) -> None:
    run = factories.failed_run()
    run.deployment.usd_per_hour = None
    run.deployment.save()
    page = user_client.get("/").content.decode()
    assert "has no price" in page
    assert "Nothing is scheduled" in page


def test_a_broker_that_is_away_is_told_with_what_is_kept(user_client: Client) -> None:
    page = user_client.get("/overview/workers").content.decode()
    assert "The broker cannot be reached" in page
    assert "Runs and schedules are kept" in page


def test_waiting_runs_without_a_worker_are_told_with_the_command(user_client: Client, broker: Valkey) -> None:
    factories.queued_run()
    page = user_client.get("/overview/workers").content.decode()
    assert "No worker takes benchmarks" in page
    assert "1 run waits." in page
    assert "celery -A observatory worker -Q bench -c 1" in page


def test_workers_are_named_by_the_queue_that_they_listen_to(
    user_client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(f"sqlite:///{tmp_path / 'none.sqlite3'}")
    try:
        site.valkey.start()
        monkeypatch.setitem(app.conf, "broker_url", site.valkey.url)
        site.worker("bench")
        page = user_client.get("/overview/workers").content.decode()
    finally:
        site.close()
    assert "bench@test" in page
    assert "No worker takes benchmarks" not in page
    assert "No control worker answers" in page


def test_a_schedule_that_nobody_took_points_to_beat(user_client: Client) -> None:
    benchmark = factories.benchmark()
    Schedule.objects.create(benchmark=benchmark, cron="0 3 * * *", next_due_at=timezone.now() - timedelta(minutes=10))
    page = user_client.get("/overview/workers").content.decode()
    assert "1 schedule passed its time" in page
    assert "celery -A observatory beat" in page
