"""Real Celery workers over a real Valkey. The instrument is a stand-in, so that it can be slow on purpose."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from django.db import connection

from observatory.benchmarks.models import Benchmark
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from tests.services.fixtures import both_databases
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]


def start(asked: Benchmark) -> Run:
    run = states.queue(asked, Run.Trigger.PAGE)
    assert dispatch.publish(run)
    return run


def status(run: Run) -> str:
    run.refresh_from_db()
    return run.status


def until(run: Run, *wanted: str, seconds: float = 40) -> None:
    wait_for(lambda: status(run) in wanted, seconds, f"for {wanted}; it is {status(run)}")


def instruments(site: Site) -> list[int]:
    """Process ids of the instruments that work in this site's folders."""
    mark = f"{site.directory}/work/".encode()
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if mark in _read(path) and b"stand_in" in _read(path)
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def stored_rows(run: Run) -> int:
    with run.requests_file.open() as file:
        return int(pq.read_table(file).num_rows)


@both_databases
def test_a_run_completes_and_the_same_message_five_times_is_one_execution(site: Site, benchmark: Make) -> None:
    site.worker("bench")
    run = start(benchmark(requests=20))
    for _ in range(4):
        assert dispatch.publish(run)
    until(run, "finished")
    after = start(benchmark(name="after", requests=5))
    until(after, "finished")
    assert (run.valid, run.epoch, stored_rows(run)) == (True, 1, 20)
    assert len(site.sent()) == 25


def test_two_workers_measure_one_endpoint_one_run_at_a_time(site: Site, benchmark: Make) -> None:
    for name in ("one", "two"):
        site.worker("bench", name, ready=False)
    asked = benchmark(requests=25)
    runs = [start(asked) for _ in range(3)]
    for run in runs:
        until(run, "finished")
    first, *later = sorted(runs, key=lambda run: str(run.started_at))
    for run in later:
        assert first.ended_at
        assert run.started_at
        assert first.ended_at <= run.started_at
        first = run
    salts = [line.split()[0] for line in site.sent()]
    assert [salts.count(run.spec["salt"]) for run in runs] == [25, 25, 25]
    assert [len(set(salts[i : i + 25])) for i in (0, 25, 50)] == [1, 1, 1]


@both_databases
def test_kill_9_of_the_worker_leaves_the_run_lost_with_its_rows_and_sends_nothing_more(
    site: Site, benchmark: Make
) -> None:
    worker = site.worker("bench")
    site.worker("control")
    site.beat()
    run = start(benchmark(requests=2000))
    wait_for(lambda: len(site.sent()) > 60)
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait(10)
    wait_for(lambda: not instruments(site), 5, "for the instrument to die with its worker")
    sent = len(site.sent())
    site.worker("bench", "bench-again")
    until(run, "lost")
    assert run.reason_code == "worker_lost"
    assert sent * 0.5 < stored_rows(run) <= sent
    assert run.stages.get().planned == stored_rows(run)
    again = start(run.benchmark)
    until(again, "running")
    states.request_cancel(again.pk)
    until(again, "cancelled")
    assert sum(line.startswith(run.spec["salt"]) for line in site.sent()) == sent


def test_kill_9_of_the_pool_child_ends_the_instrument_and_the_run_is_lost(site: Site, benchmark: Make) -> None:
    site.worker("bench")
    site.worker("control")
    site.beat()
    run = start(benchmark(requests=2000))
    wait_for(lambda: len(site.sent()) > 20)
    run.refresh_from_db()
    os.kill(int(run.lease_owner.rsplit(":", 1)[1]), signal.SIGKILL)
    wait_for(lambda: not instruments(site), 5)
    sent = len(site.sent())
    until(run, "lost")
    assert (run.reason_code, len(site.sent())) == ("worker_lost", sent)


def test_sigterm_of_a_worker_ends_it_soon_and_keeps_the_rows(site: Site, benchmark: Make) -> None:
    worker = site.worker("bench")
    run = start(benchmark(requests=2000))
    wait_for(lambda: len(site.sent()) > 20)
    worker.terminate()
    worker.wait(20)
    assert status(run) == "lost"
    assert (run.reason_code, run.valid) == ("worker_stopped", False)
    assert stored_rows(run) == len(site.sent())
    assert not instruments(site)


def test_sigterm_ends_workers_whose_broker_died_just_before(site: Site, benchmark: Make) -> None:
    workers = [site.worker(queue) for queue in ("bench", "control")]
    run = start(benchmark(requests=2000))
    wait_for(lambda: len(site.sent()) > 20)
    site.valkey.kill()
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.wait(20)
    assert status(run) == "lost"
    assert not instruments(site)


def test_a_running_run_is_cancelled_within_seconds_and_the_next_one_starts(site: Site, benchmark: Make) -> None:
    site.worker("bench")
    asked = benchmark(requests=2000)
    run, following = start(asked), start(asked)
    wait_for(lambda: len(site.sent()) > 20)
    assert states.request_cancel(run.pk)
    until(run, "cancelled", seconds=6)
    until(following, "running", seconds=6)
    states.request_cancel(following.pk)
    until(following, "cancelled", seconds=6)


def test_a_run_cancelled_while_no_worker_is_up_never_starts(site: Site, benchmark: Make) -> None:
    asked = benchmark()
    run = start(asked)
    assert states.request_cancel(run.pk)
    following = start(asked)
    site.worker("bench")
    until(following, "finished")
    assert status(run) == "cancelled"
    assert len(site.sent()) == 10


def test_with_the_broker_down_a_run_stays_queued_and_starts_by_itself_later(site: Site, benchmark: Make) -> None:
    site.valkey.kill()
    run = states.queue(benchmark(), Run.Trigger.PAGE)
    assert dispatch.publish(run) is False
    assert (status(run), run.dispatched_at) == ("queued", None)
    for queue in ("bench", "control"):
        site.worker(queue, ready=False)
    site.beat()
    wait_for(lambda: "Trying again" in site.log("bench") + site.log("control"), 40)
    site.valkey.start()
    until(run, "finished")


def test_a_broker_that_loses_everything_mid_run_costs_no_run(site: Site, benchmark: Make) -> None:
    for queue in ("bench", "control"):
        site.worker(queue)
    site.beat()
    running, waiting = start(benchmark(requests=100)), start(benchmark(name="waits"))
    until(running, "running")
    site.valkey.kill()
    for left in site.directory.glob("appendonlydir/*"):
        left.unlink()
    site.valkey.start()
    Run.objects.filter(pk=waiting.pk, status="queued").update(dispatched_at=None)  # a minute passes
    until(running, "finished")
    until(waiting, "finished")
    assert len(site.sent()) == 110


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_database_that_is_away_for_seconds_mid_run_costs_nothing(
    site: Site, benchmark: Make, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_server")
    site.variables["RUN_LEASE_S"] = "60"  # however slow this machine is, the database is back before
    site.worker("bench")
    run = start(benchmark(requests=160))
    wait_for(lambda: len(site.sent()) > 20, 120)
    server.stop()
    try:
        wait_for(lambda: len(site.sent()) > 80, 120)
    finally:
        server.start()
    connection.close()
    until(run, "finished", seconds=120)
    assert (run.valid, stored_rows(run), run.stages.get().ok) == (True, 160, 160)


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_results_wait_for_a_database_that_is_away_when_the_run_ends(
    site: Site, benchmark: Make, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_server")
    site.worker("bench")
    run = start(benchmark(requests=60))
    wait_for(lambda: len(site.sent()) > 20, 120)
    server.stop()
    try:
        wait_for(lambda: len(site.sent()) == 60 and not instruments(site), 120)
        subprocess.run(["sleep", "1.5"], check=True)
    finally:
        server.start()
    connection.close()
    until(run, "finished", seconds=120)
    assert (run.valid, stored_rows(run)) == (True, 60)


def holds(path: Path, key: str) -> bool:
    try:
        return key.encode() in path.read_bytes()
    except FileNotFoundError:  # of a run that has just ended
        return False


def test_the_key_is_in_no_message_log_database_or_file(site: Site, benchmark: Make) -> None:
    site.worker("bench", level="DEBUG")
    site.worker("control", level="DEBUG")
    key = "sk-canary-0a1b2c3d4e5f"
    asked = benchmark("leak", requests=30, key=key)
    crash = benchmark("crash", name="crash", key=key)
    for run in (start(asked), start(crash)):
        until(run, "finished", "failed")
    connection.close()
    kept = [path for path in site.directory.rglob("*") if path.is_file()]
    kept += list(Path(str(connection.settings_dict["NAME"])).parent.glob("test.sqlite3*"))
    names = " ".join(path.name for path in kept)
    assert all(part in names for part in ("bench.log", "aof", "requests.parquet", "test.sqlite3"))
    assert [path.name for path in kept if holds(path, key)] == []


def test_a_stopped_worker_that_wakes_after_its_lease_stops_sending_and_is_refused(site: Site, benchmark: Make) -> None:
    site.worker("bench")
    site.worker("control")
    site.beat()
    run = start(benchmark(requests=4000))
    wait_for(lambda: len(site.sent()) > 20)
    run.refresh_from_db()
    child = int(run.lease_owner.rsplit(":", 1)[1])
    os.kill(child, signal.SIGSTOP)
    try:
        until(run, "lost")
    finally:
        os.kill(child, signal.SIGCONT)
    wait_for(lambda: not instruments(site), 4, "for the zombie to stop sending")
    assert status(run) == "lost"
    assert run.reason_code == "worker_lost"
