"""One run over two load hosts: two real Celery workers, the real instrument, and a server that keeps a ledger."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from observatory.benchmarks import files
from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.runs import clocks, dispatch, shards, states
from observatory.runs.models import Run
from tests import questions
from tests.services.misbehaving import Ledger, Server, serving
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]
on_postgres = pytest.mark.parametrize(
    "database_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@pytest.fixture
def real_site(site: Site) -> Site:
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    return site


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def server(ledger: Ledger) -> Iterator[Server]:
    with serving({"m": ledger.script(0.5)}) as found:
        yield found


def ask(make: Make, server: Server, **changes: Any) -> Benchmark:
    asked = make("m", name=changes.pop("name", "b"))
    Endpoint.objects.filter(pk=asked.deployment.endpoint_id).update(url=f"{server.url}/{asked.name}")
    values = {"input_tokens": 5, "output_tokens": 3, "power_source": "none", "load_hosts": 2}
    questions.ask(asked, **values | changes)
    return Benchmark.objects.get(pk=asked.pk)


def start(asked: Benchmark) -> Run:
    run = states.queue(asked, Run.Trigger.API)
    assert dispatch.publish(run)
    return run


def status(run: Run) -> str:
    run.refresh_from_db()
    return run.status


def until(run: Run, *wanted: str, seconds: float = 60) -> None:
    wait_for(lambda: status(run) in wanted, seconds, f"for {wanted}; it is {status(run)}: {run.reason}")


def until_served(run: Run, requests: int) -> None:
    wait_for(lambda: status(run) == "running" and run.progress.get("ok", 0) >= requests, 60, f"for {requests} served")


def rows(run: Run) -> list[dict[str, Any]]:
    """In the order of the plan: those of several hosts are stored some of each in turn."""
    with run.requests_file.open() as file:
        return sorted(pq.read_table(file).to_pylist(), key=lambda row: (row["stage"], row["index"]))


def test_the_broker_compares_clocks_to_within_a_stated_bound(site: Site) -> None:
    first, second = clocks.compare(), clocks.compare()
    assert 0 < first.bound_ns < 50_000_000
    assert abs(first.offset_ns - second.offset_ns) <= first.bound_ns + second.bound_ns
    assert abs(first.offset_ns + time.monotonic_ns() - time.time_ns()) < 1_000_000_000


def test_two_load_hosts_carry_one_run_as_if_they_were_one(
    real_site: Site, benchmark: Make, server: Server, ledger: Ledger
) -> None:
    for name in ("one", "two"):
        real_site.worker("bench", name, ready=False)
    ledger.awaited = 45
    run = start(ask(benchmark, server, levels=[45], requests=200))
    until(run, "finished", "failed", "lost", seconds=90)
    assert run.status == "finished", run.reason
    assert run.summary
    stage = run.stages.get()
    assert (stage.planned, stage.ok) == (200, 200)
    assert ledger.peak == 45
    found = rows(run)
    assert [row["index"] for row in found] == list(range(200))
    assert [row["shard"] for row in found] == [0, 1] * 100
    sent = [request["messages"][0]["content"] for request in server.requests]
    measured = [prompt for prompt in sent if len(prompt.split()) not in (16, 112)]
    assert len(measured) == len(set(measured)) == 200
    hosts = run.summary["shards"]
    assert [host["index"] for host in hosts] == [0, 1]
    assert all(host["host"] and host["fault"] is None for host in hosts)
    assert abs(hosts[1]["offset_ns"]) <= hosts[1]["bound_ns"] < 50_000_000  # both are this machine
    assert run.summary["stages"][0]["start_spread_ms"] < 100
    assert run.summary["stages"][0]["client"]["calibration"]["value"] in (22, 23)
    assert [shard["ok"] for shard in run.summary["stages"][0]["shards"]] == [100, 100]
    assert {shard["verdict"] for shard in run.summary["stages"][0]["shards"]} <= {"ok", "client_limited"}
    assert not run.gathering
    assert not (real_site.directory / "media" / "runs" / str(run.pk) / "1" / "shard-1").exists()


def test_every_load_host_fetches_the_workload_file_for_itself(
    real_site: Site, benchmark: Make, server: Server, ledger: Ledger
) -> None:
    lines = b"".join(b'"prompt number %d"\n' % number for number in range(8))
    kept = files.keep(SimpleUploadedFile("p.jsonl", lines), "", "prompts", None)
    for name in ("one", "two"):
        real_site.worker("bench", name, ready=False)
    source = {"kind": "prompts", "file": "p.jsonl"}
    run = start(ask(benchmark, server, levels=[4], requests=8, source=source))
    until(run, "finished", "failed", "lost", seconds=90)
    assert run.status == "finished", run.reason
    assert run.spec["files"] == {"p.jsonl": kept.sha256}
    asked = {request["messages"][0]["content"] for request in server.requests}
    assert {f"prompt number {number}" for number in range(8)} <= asked
    wait_for(lambda: not list((real_site.directory / "work").glob("*")), 20, "for the hosts' folders to be gone")


@on_postgres
def test_a_load_host_that_dies_loses_the_run_with_its_reason_and_keeps_the_rows_of_all(
    real_site: Site, benchmark: Make, server: Server, ledger: Ledger
) -> None:
    workers = {name: real_site.worker("bench", name, ready=False) for name in ("one", "two")}
    run = start(ask(benchmark, server, levels=[6], requests=None, duration_s=120.0))
    until_served(run, 24)
    child = int(run.shards.get(index=1).owner.rpartition(":")[2])
    workers_of = {int(pid): name for name, worker in workers.items() for pid in _children(worker.pid)}
    os.killpg(workers[workers_of[child]].pid, signal.SIGKILL)
    until(run, "lost", seconds=40)
    assert (run.reason_code, run.valid) == ("shard_lost", False)
    assert "fell silent" in run.reason
    found = rows(run)
    assert {row["shard"] for row in found} == {0, 1}
    assert sum(row["outcome"] == "ok" for row in found) >= 24
    assert run.summary
    assert run.summary["shards"][1]["fault"]["code"] == "shard_lost"
    wait_for(lambda: ledger.now == 0, 10)


def _children(pid: int) -> list[str]:
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return file.read().split()


def test_a_cancel_reaches_all_load_hosts_and_the_leading_ones_death_ends_the_others(
    real_site: Site, benchmark: Make, server: Server, ledger: Ledger
) -> None:
    workers = {name: real_site.worker("bench", name, ready=False) for name in ("one", "two")}
    real_site.worker("control")
    real_site.beat()
    asked = ask(benchmark, server, levels=[6], requests=None, duration_s=120.0)
    run = start(asked)
    until_served(run, 12)
    states.request_cancel(run.pk)
    until(run, "cancelled", seconds=20)
    stage = run.stages.get()
    assert stage.verdict == "interrupted"
    assert 1 <= stage.cancelled <= 6
    assert {row["shard"] for row in rows(run)} == {0, 1}

    again = start(asked)
    until_served(again, 12)
    child = int(again.lease_owner.rpartition(":")[2])
    leading = next(worker for worker in workers.values() if str(child) in _children(worker.pid))
    os.killpg(leading.pid, signal.SIGKILL)
    wait_for(lambda: ledger.now == 0, 20, "for the other host to stop sending")
    until(again, "lost", seconds=40)
    assert again.reason_code == "worker_lost"
    assert {row["shard"] for row in rows(again)} == {0, 1}


def test_a_run_whose_load_hosts_do_not_come_fails_and_says_what_to_start(
    real_site: Site, benchmark: Make, server: Server
) -> None:
    real_site.variables["RUN_GATHER_S"] = "1"
    real_site.worker("bench")
    run = start(ask(benchmark, server, levels=[2], requests=4, load_hosts=3))
    until(run, "failed")
    assert run.reason_code == "load_hosts_missing"
    assert "3 load hosts were asked for and 2 of them did not come" in run.reason
    assert not run.gathering


def test_two_runs_do_not_gather_load_hosts_at_once(site: Site, benchmark: Make, server: Server) -> None:
    runs = [
        states.queue(ask(benchmark, server, name=name, levels=[2], requests=4), Run.Trigger.API)
        for name in ("one", "two")
    ]
    first = states.claim(runs[0].pk, "a:1")
    assert first
    assert first.gathering
    assert states.claim(runs[1].pk, "b:1") is None
    dispatch.sweep()
    runs[1].refresh_from_db()
    assert runs[1].dispatched_at is None
    states.gathered(first)
    assert states.claim(runs[1].pk, "b:1")


def test_a_shard_is_taken_once_and_only_while_its_run_runs(site: Site, benchmark: Make, server: Server) -> None:
    asked = ask(benchmark, server, levels=[2], requests=4)
    run = states.claim(states.queue(asked, Run.Trigger.API).pk, "a:1")
    assert run
    shards.create(run, "a:1")
    second = run.shards.get(index=1)
    taken = shards.join(second.pk, "b:1")
    assert taken
    assert shards.join(second.pk, "c:1") is None
    assert shards.renew(taken, {}, []).mine
    states.end(run, Run.Status.LOST)
    assert not shards.renew(taken, {}, []).mine
    late = run.shards.get(index=1)
    late.status = "waiting"
    late.save()
    assert shards.join(second.pk, "c:1") is None
