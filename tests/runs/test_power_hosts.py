"""Power of a run that is driven elsewhere: two real Celery workers over Valkey, the power worker with another
host name and another monotonic clock (Linux namespaces), and scripted GPUs behind the real NVML binding there.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs import dispatch, samplings, states
from observatory.runs.models import Run, Sampling
from tests import questions
from tests.runners.power.conftest import nvml_library
from tests.services.misbehaving import Server, Wire, content, serving
from tests.services.site import Site, wait_for

__all__ = ["nvml_library"]

Make = Callable[..., Benchmark]
S = 1_000_000_000
AHEAD_S = 1000
#: A host of its own: the name gpu-box, and a monotonic clock that is AHEAD_S seconds further.
BOX = ("unshare", "--uts", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child=SIGKILL")


def _other_host() -> tuple[str, ...]:
    """How a process gets a host name and a clock of its own; skips where the kernel does not grant it."""
    try:
        done = subprocess.run([*BOX, "hostname", "gpu-box"], capture_output=True, timeout=20, check=False)
    except FileNotFoundError:
        done = None
    if done is None or done.returncode:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("needs root and unshare with time namespaces (util-linux 2.36, Linux 5.6)")
        pytest.skip("needs root and unshare with time namespaces")
    return (*BOX, "sh", "-c", 'hostname gpu-box; exec "$@"', "sh")


@pytest.fixture
def server() -> Iterator[Server]:
    def answer(wire: Wire) -> None:
        wire.head()
        wire.event(content("a"))
        time.sleep(0.1)
        wire.words("b")
        wire.finish()

    with serving({"m": answer}) as found:
        yield found


@pytest.fixture
def bench_site(site: Site, settings: Any) -> Site:
    site.variables |= {"RUN_COMMAND": f"{sys.executable} -m runners bench", "RUN_POWER_WAIT_S": "20"}
    return site


def power_worker(site: Site, library: Path, script: str) -> subprocess.Popen[bytes]:
    """A worker on gpu-box that sees the GPUs of the script."""
    (site.directory / "gpus").write_text(script)
    gpus = {"LD_LIBRARY_PATH": str(library), "NVML_SCRIPT": str(site.directory / "gpus")}
    kept, site.variables = site.variables, site.variables | gpus | {"VAR_DIR": str(site.directory / "gpu-box")}
    (site.directory / "gpu-box").mkdir(exist_ok=True)
    site.variables["MEDIA_ROOT"] = str(site.directory / "media")
    options = ("-Q", "power.gpu-1", "-c", "1", "-n", "power@box", "-l", "INFO", "--without-gossip", "--without-mingle")
    command = (sys.executable, "-m", "celery", "-A", "observatory", "worker", *options)
    worker = site.start("power", *_other_host(), *command)
    site.variables = kept
    wait_for(lambda: "power@box ready" in site.log("power") or worker.poll() is not None, 60)
    return worker


def ask(make: Make, server: Server | None, **changes: Any) -> Run:
    asked = make("m" if server else "slow", name=changes.pop("name", "b"))
    Deployment.objects.filter(pk=asked.deployment_id).update(power_hosts=changes.pop("hosts", "gpu-1"))
    if server:
        Endpoint.objects.filter(pk=asked.deployment.endpoint_id).update(url=server.url)
    values = {"input_tokens": 5, "output_tokens": 3, "power_source": "nvml", "requests": None, "duration_s": 4.0}
    questions.ask(asked, **values | changes)
    run = states.queue(Benchmark.objects.get(pk=asked.pk), Run.Trigger.API)
    assert dispatch.publish(run)
    return run


def until(run: Run, *wanted: str, seconds: float = 60) -> None:
    def status() -> str:
        run.refresh_from_db()
        return run.status

    wait_for(lambda: status() in wanted, seconds, f"for {wanted}; it is {run.status}: {run.reason}")


def until_sampled(run: Run) -> Sampling:
    wait_for(lambda: run.samplings.filter(power_w__isnull=False).exists(), 40, "for the power worker")
    return run.samplings.get()


def samplers() -> list[int]:
    """Processes of runners.power.sampler that belong to these tests' power workers."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"runners.power.sampler" in words and any(b"-power-gpu-1" in word for word in words):
            found.append(int(folder.name))
    return found


def test_power_sampled_on_the_gpu_host_is_in_the_runs_ledger_on_the_runs_clock(
    bench_site: Site, benchmark: Make, server: Server, nvml_library: Path
) -> None:
    bench_site.worker("bench")
    power_worker(bench_site, nvml_library, "")
    step_at_ns = time.monotonic_ns() + 10 * S
    script = f"t0_ns {step_at_ns + AHEAD_S * S}\ngpus 2\nstep 0 100000 400000 0\nconstant 1 200000\n"
    (bench_site.directory / "gpus").write_text(script)  # read when the sampler starts
    run = ask(benchmark, server, duration_s=8.0)
    until(run, "finished", "failed", "lost", seconds=90)
    assert run.status == "finished", run.reason
    assert run.summary
    energy = run.stages.get().energy
    assert energy["boundary"] == "accelerator"
    assert {layer["sampled_by"] for layer in energy["layers"] if layer["layer"] == "accelerator"} == {"gpu-1"}
    assert 295 <= energy["it_j"] / energy["window_s"] <= 615  # a counter step at each edge
    sampled = run.summary["power"]["sampled_by"][0]
    assert (sampled["host"], sampled["machine"], sampled["fault"]) == ("gpu-1", "gpu-box", None)
    assert abs(sampled["offset_ns"] + AHEAD_S * S) <= sampled["bound_ns"] + S // 10
    assert 0 < sampled["bound_ns"] < 100_000_000
    assert 295 <= run.summary["power"]["idle_w"] <= 615
    with run.power_file.open() as file:
        samples = pq.read_table(file).to_pylist()
    first = [row for row in samples if row["device"].startswith("gpu-1/") and row["power_instant_mw"] in (1e5, 4e5)]
    jump = next(row["t_ns"] for row in first if row["power_instant_mw"] == 4e5)
    assert abs(jump - step_at_ns) < 0.4 * S, (jump - step_at_ns) / S
    assert np.all(np.diff([row["t_ns"] for row in first if row["device"] == first[0]["device"]]) > 0)
    assert not run.summary["power"].get("fault")
    assert samplers() == []
    folder = bench_site.directory / "media" / "runs" / str(run.pk) / str(run.epoch)
    assert not list(folder.glob("power-*"))


def test_a_power_worker_that_is_killed_spoils_the_energy_and_never_the_run(
    bench_site: Site, benchmark: Make, server: Server, nvml_library: Path
) -> None:
    bench_site.variables["RUN_POWER_WAIT_S"] = "8"
    bench_site.worker("bench", ready=False)
    worker = power_worker(bench_site, nvml_library, "gpus 1\nconstant 0 250000\n")
    run = ask(benchmark, server, duration_s=3.0)
    sampling = until_sampled(run)
    assert len(samplers()) == 1
    for pid in [worker.pid, int(sampling.owner.rpartition(":")[2])]:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: samplers() == [], 10, "for the sampler to end with its worker")
    until(run, "finished", "failed", "lost", seconds=60)
    assert (run.status, run.valid) == ("finished", True), run.reason
    assert run.summary
    fault = run.summary["power"]["fault"]
    assert fault["code"] == "power_worker_lost"
    assert "gpu-1: its power worker fell silent" in fault["text"]
    assert not run.measurements.filter(metric="wh_per_query").exists()
    assert run.stages.get().energy is None

    questions.ask(run.benchmark, duration_s=1.0)
    again = states.queue(Benchmark.objects.get(pk=run.benchmark_id), Run.Trigger.API)
    assert dispatch.publish(again)
    until(again, "finished", "failed", "lost", seconds=60)
    assert (again.status, again.valid) == ("finished", True), again.reason
    assert again.summary
    assert again.summary["power"]["fault"]["code"] == "power_worker_missing"
    assert "celery -A observatory worker -Q power." in again.summary["power"]["fault"]["text"]


def test_a_cancel_and_the_death_of_the_load_host_leave_no_sampler_behind(
    site: Site, benchmark: Make, nvml_library: Path
) -> None:
    bench = site.worker("bench", ready=False)
    power_worker(site, nvml_library, "gpus 1\nconstant 0 250000\n")
    run = ask(benchmark, None, requests=400, duration_s=None)
    until_sampled(run)
    states.request_cancel(run.pk)
    until(run, "cancelled", seconds=30)
    wait_for(lambda: samplers() == [], 10)

    again = states.queue(run.benchmark, Run.Trigger.API)
    assert dispatch.publish(again)
    until_sampled(again)
    os.killpg(bench.pid, signal.SIGKILL)
    wait_for(lambda: samplers() == [], 30, "for the power worker to notice that its load host is gone")
    folder = site.directory / "media" / "runs" / str(again.pk) / str(again.epoch)
    wait_for(lambda: again.samplings.get().status in ("ended", "lost"), 20)
    wait_for(
        lambda: not list((site.directory / "gpu-box" / "work").glob("*")), 20, "for the sampler's folder to be gone"
    )
    assert again.samplings.get().status == "ended" or not list(folder.glob("power-*"))


def test_a_sampling_is_taken_once_and_ends_with_its_run(site: Site, benchmark: Make) -> None:
    asked = benchmark("steady")
    run = states.claim(states.queue(asked, Run.Trigger.API).pk, "load:1")
    assert run
    one, two = samplings.create(run, ["gpu-1", "gpu-2"])
    taken = samplings.join(one.pk, "gpu-1:7")
    assert taken
    assert samplings.join(one.pk, "gpu-1:8") is None
    assert samplings.renew(taken, 120.0)
    samplings.stop(run)
    assert not samplings.renew(taken, 120.0)
    states.end(run, Run.Status.LOST)
    assert not samplings.end(taken, power_file="")
    assert samplings.join(two.pk, "gpu-2:1") is None
