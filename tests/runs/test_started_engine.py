"""Endpoints whose engine the observatory starts: a real llama.cpp, real workers, a real Valkey."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from runners.engines.packaged import MODEL_NAME
from runners.spec import SpecError
from tests.questions import ask
from tests.services.site import ROOT, Site, wait_for

Make = Callable[..., Benchmark]

LLAMA = {"engine": "llama.cpp", "options": {"n_parallel": 2, "n_ctx": 1024}, "threads": 1}


@pytest.fixture
def real_site(site: Site) -> Site:
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    return site


def start(make: Make, recipe: dict[str, Any], **changes: Any) -> Run:
    asked = make(MODEL_NAME)
    # A variable of its own tells this test's engine from others on the machine.
    recipe = recipe | {"environment": {"LLAMA_TEST": asked.name + str(os.getpid())}}
    endpoint = asked.deployment.endpoint
    endpoint.recipe, endpoint.url = recipe, ""
    endpoint.clean_fields()
    endpoint.save()
    values = {"input_tokens": 32, "output_tokens": 4, "levels": [1], "requests": 4, "power_source": "none"}
    ask(asked, **values | changes)
    run = states.queue(Benchmark.objects.get(pk=asked.pk), Run.Trigger.API)
    assert dispatch.publish(run)
    return run


def status(run: Run) -> str:
    run.refresh_from_db()
    return run.status


def engines() -> dict[int, str]:
    """Processes with this test's variable, and their command lines."""
    mark = f"LLAMA_TEST=b{os.getpid()}".encode()
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (path / "environ").read_bytes().split(b"\0"):
                found[int(path.name)] = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def test_the_engine_is_started_measured_stopped_and_told_of(real_site: Site, benchmark: Make) -> None:
    real_site.worker("bench")
    run = start(benchmark, LLAMA)
    wait_for(lambda: status(run) not in ("queued", "running"), 90)
    assert run.status == "finished", run.reason
    assert run.stages.get().ok == 4
    assert not engines()
    assert run.summary
    facts = run.summary["environment"]["engine"]
    assert "runners.engines.llamacpp" in facts["command"]
    assert '"n_parallel": 2' in facts["command"]
    assert facts["version"].startswith("xllamacpp 20")
    assert "llama.cpp listens" in facts["log_tail"]
    assert run.setup["endpoint"]["recipe"]["options"] == LLAMA["options"]
    assert run.spec["target"]["url"] == Endpoint.STARTED_URL
    assert run.measurements.filter(metric="ttft_ms", statistic="mean").exists()


def test_an_engine_that_does_not_start_fails_the_run_with_its_last_words(real_site: Site, benchmark: Make) -> None:
    real_site.worker("bench")
    broken = Path(real_site.directory) / "broken.gguf"
    broken.write_bytes(b"GGUF is not all that a model needs")
    run = start(benchmark, LLAMA | {"model": str(broken)})
    wait_for(lambda: status(run) not in ("queued", "running"), 60)
    assert (run.status, run.reason_code) == ("failed", "engine_not_started")
    assert "llama.cpp ended with status 3" in run.reason
    assert "broken.gguf" in run.reason
    assert not engines()


def test_a_cancel_while_the_engine_starts_ends_it_and_sends_nothing(
    real_site: Site, benchmark: Make, settings: Any
) -> None:
    settings.ENGINE_COMMANDS = True
    real_site.variables["ENGINE_COMMANDS"] = "1"
    real_site.worker("bench")
    hanging = f"{sys.executable} {ROOT / 'tests/runners/engines/misbehaving.py'} {{port}} hangs"
    run = start(benchmark, {"engine": "command", "command": hanging})
    wait_for(lambda: status(run) == "running" and run.progress.get("phase") == "engine", 30)
    assert len(engines()) == 3  # the guard, the engine and its child
    states.request_cancel(run.pk)
    wait_for(lambda: status(run) == "cancelled", 20)
    assert run.reason == "Cancelled while its engine started; nothing was sent."
    assert not engines()


def test_an_engine_that_ends_under_a_run_fails_it_with_its_last_words(real_site: Site, benchmark: Make) -> None:
    real_site.worker("bench")
    run = start(benchmark, LLAMA, requests=None, duration_s=120.0)
    wait_for(lambda: status(run) == "running" and run.progress.get("ok", 0) >= 2, 60)
    (server,) = [pid for pid, line in engines().items() if "runners.engines.guard" not in line]
    os.kill(server, signal.SIGKILL)
    wait_for(lambda: status(run) == "failed", 30)
    assert run.reason_code == "engine_ended"
    assert "llama.cpp listens" in run.reason
    assert run.stages.get().ok >= 2


def test_a_cancel_ends_the_engine_that_is_measured(real_site: Site, benchmark: Make) -> None:
    real_site.worker("bench")
    run = start(benchmark, LLAMA, requests=None, duration_s=120.0)
    wait_for(lambda: status(run) == "running" and run.progress.get("ok", 0) >= 2, 60)
    states.request_cancel(run.pk)
    wait_for(lambda: status(run) == "cancelled", 20)
    assert run.stages.get().ok >= 2
    assert not engines()


def test_kill_9_of_the_worker_leaves_no_engine(real_site: Site, benchmark: Make) -> None:
    worker = real_site.worker("bench")
    run = start(benchmark, LLAMA, requests=None, duration_s=120.0)
    wait_for(lambda: status(run) == "running" and run.progress.get("ok", 0) >= 2, 60)
    assert len(engines()) == 2  # the engine and its guard
    os.killpg(worker.pid, signal.SIGKILL)
    wait_for(lambda: not engines(), 20, str(engines()))


def test_an_engine_of_the_worker_is_measured_from_one_load_host_only(benchmark: Make) -> None:
    with pytest.raises(SpecError, match="ask for 1 load host"):
        start(benchmark, LLAMA, load_hosts=2)


def test_commands_are_refused_until_the_administrator_allows_them(benchmark: Make, settings: Any) -> None:
    command = {"engine": "command", "command": "serve --port {port}", "model": "m"}
    with pytest.raises(ValidationError, match="ENGINE_COMMANDS=1"):
        start(benchmark, command)
