"""A disk that fills while a real worker carries out a run: what its page and the API say."""

import sys
from collections.abc import Callable

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from tests.questions import ask
from tests.runs.conftest import told
from tests.services.misbehaving import good, serving
from tests.services.site import Site, wait_for
from tests.services.small_disk import small_disk

Make = Callable[..., Benchmark]


def carried_out(asked: Benchmark) -> Run:
    run = states.queue(asked, Run.Trigger.PAGE)
    assert dispatch.publish(run)
    wait_for(lambda: Run.objects.get(pk=run.pk).ended, 60)
    return Run.objects.get(pk=run.pk)


def test_a_work_folder_that_fills_ends_the_run_with_the_rows_so_far(site: Site, benchmark: Make) -> None:
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    work = site.directory / "work"
    work.mkdir()
    with small_disk(work, 160), serving({"m": good}) as server:
        benchmark("m")
        Endpoint.objects.update(url=server.url)
        asked = ask(
            Benchmark.objects.get(),
            requests=None,
            duration_s=40,
            levels=[4],
            warmup_s=0,
            power_source="none",
            calibrate_s=0,
        )
        site.worker("bench")
        run = carried_out(asked)
    assert (run.status, run.valid, run.reason_code) == ("finished", False, "disk_full")
    assert run.requests_file
    assert run.stages.get().ok > 10
    for said in told(run):
        assert "disk is full" in said
        assert "Free space" in said


def test_a_storage_that_is_full_is_told_with_where_to_free_space(site: Site, benchmark: Make) -> None:
    media = site.directory / "media"
    media.mkdir()
    with small_disk(media, 4):
        site.worker("bench")
        run = carried_out(benchmark(requests=20))
        said_of_it = told(run)
    assert (run.status, run.valid, run.requests_file.name) == ("finished", True, "")
    for said in said_of_it:
        assert "The raw rows could not be stored: No space left on device." in said
        assert f"Free space at {media}. Start a new run" in said
