"""The real instrument on the real embedded engine, through real workers over a real Valkey."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from tests import questions
from tests.services.engine import counted, embedded_engine
from tests.services.fixtures import both_databases
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]


@pytest.fixture(scope="module")
def engine_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with embedded_engine(tmp_path_factory.mktemp("engine")) as url:
        yield url


@pytest.fixture
def real_site(site: Site) -> Site:
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    return site


def start(make: Make, url: str, **changes: Any) -> Run:
    asked = make("SmolLM2-135M-Instruct")
    Endpoint.objects.filter(pk=asked.deployment.endpoint_id).update(url=url)
    values = {"input_tokens": 32, "output_tokens": 8, "levels": [1, 2], "requests": 4, "power_source": "estimate"}
    questions.ask(asked, **values | changes)
    run = states.queue(Benchmark.objects.get(pk=asked.pk), Run.Trigger.API)
    assert dispatch.publish(run)
    return run


def status(run: Run) -> str:
    run.refresh_from_db()
    return run.status


def until_served(run: Run, requests: int) -> None:
    def served() -> bool:
        assert status(run) in ("queued", "running"), run.reason
        return bool(run.progress.get("ok", 0) >= requests)

    wait_for(served, 60, f"for {requests} served requests")


def of_this_site(site: Site) -> list[str]:
    """Command lines of the processes that work in this site's folders, instrument and power sampler."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"{site.directory}/work/" in line:
            lines.append(line)
    return lines


@both_databases
def test_the_embedded_engine_is_measured_through_the_queue(real_site: Site, benchmark: Make, engine_url: str) -> None:
    real_site.worker("bench")
    run = start(benchmark, engine_url, requests=12)
    wait_for(lambda: status(run) not in ("queued", "running"), 90)
    assert run.status == "finished"
    verdicts = {stage.verdict for stage in run.stages.all()}
    assert verdicts <= {"ok", "client_limited"}  # a busy machine may be late with a request
    assert run.valid is (verdicts == {"ok"})
    assert run.reason_code == ("" if run.valid else "stage_client_limited")
    assert [(stage.planned, stage.ok) for stage in run.stages.all()] == [(12, 12), (12, 12)]
    assert run.summary
    assert run.summary["environment"]["cpu_count"] == os.cpu_count()
    with run.requests_file.open() as file:
        rows = pq.read_table(file).to_pylist()
    assert {row["output_tokens"] for row in rows} == {8}
    found = run.measurements.get(stage__index=1, metric="output_tokens", statistic="mean")
    assert (found.value, found.n, found.mark) == (8, 12, "measured")
    assert run.measurements.filter(metric="wh_per_query", mark="modelled").exists()
    with run.power_file.open() as file:
        assert pq.read_table(file).num_rows > 0
    assert not of_this_site(real_site)


@both_databases
def test_kill_9_of_the_worker_mid_run_keeps_the_rows_and_sends_nothing_more(
    real_site: Site, benchmark: Make, engine_url: str
) -> None:
    worker = real_site.worker("bench")
    real_site.worker("control")
    real_site.beat()
    run = start(benchmark, engine_url, requests=None, duration_s=120.0, levels=[2])
    until_served(run, 8)
    os.killpg(worker.pid, signal.SIGKILL)
    wait_for(lambda: not of_this_site(real_site), 5, str(of_this_site(real_site)))
    wait_for(lambda: counted(engine_url, "requests_processing") == 0, 20)
    served = counted(engine_url, "tokens_predicted_total")
    wait_for(lambda: status(run) == "lost", 30)
    assert run.stages.get().ok >= 4
    assert run.measurements.filter(metric="ttft_ms", statistic="mean").exists()
    assert counted(engine_url, "tokens_predicted_total") == served


def test_a_cancel_keeps_the_summary_of_what_was_measured(real_site: Site, benchmark: Make, engine_url: str) -> None:
    real_site.worker("bench")
    run = start(benchmark, engine_url, requests=None, duration_s=120.0, levels=[2])
    until_served(run, 4)
    states.request_cancel(run.pk)
    wait_for(lambda: status(run) == "cancelled", 10)
    stage = run.stages.get()
    assert stage.ok >= 4
    assert (stage.verdict, stage.cancelled) == ("interrupted", 2)


def test_an_endpoint_where_nothing_listens_fails_the_run_in_words(real_site: Site, benchmark: Make) -> None:
    real_site.worker("bench")
    run = start(benchmark, "http://127.0.0.1:9")
    wait_for(lambda: status(run) not in ("queued", "running"), 60)
    assert (run.status, run.reason_code) == ("failed", "connect_refused")
    assert "listens" in run.reason
