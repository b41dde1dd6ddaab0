"""One execution, in this process, with a stand-in instrument that does what its model's name says."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core.files.storage import default_storage
from django.db import connection

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Endpoint
from observatory.runs import launch, states
from observatory.runs.models import Measurement, Run
from tests.services.site import Site, wait_for

Make = Callable[..., Benchmark]
KEY = "sk-canary-7f3a9b1c5d"


def execute(make: Make, model: str, **options: Any) -> Run:
    run = states.queue(make(model, **options), Run.Trigger.PAGE)
    launch.execute(run.pk)
    run.refresh_from_db()
    return run


def execute_while(act: Callable[[Run], Any], when: Callable[[Run], Any], make: Make, model: str, **options: Any) -> Run:
    """The same, and ``act`` once, beside it, as soon as it is ``when``."""
    run = states.queue(make(model, **options), Run.Trigger.PAGE)

    def beside() -> None:
        try:
            wait_for(lambda: when(run))
            act(run)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        acted = pool.submit(beside)
        launch.execute(run.pk)
        acted.result()
    run.refresh_from_db()
    return run


def rows(run: Run) -> list[dict[str, Any]]:
    with run.requests_file.open() as file:
        return list(pq.read_table(file).to_pylist())


def left_in_storage(run: Run) -> list[str]:
    return sorted(default_storage.listdir(f"runs/{run.pk}/{run.epoch}")[1])


def test_a_run_ends_with_its_summary_measurements_and_raw_rows(site: Site, benchmark: Make) -> None:
    run = execute(benchmark, "steady", requests=40)
    assert (run.status, run.valid, run.reason_code, run.definitions_version) == ("finished", True, "", 1)
    stage = run.stages.get()
    assert (stage.planned, stage.ok, stage.not_sent, stage.window_s) == (40, 40, 0, 1.0)
    mean = Measurement.objects.get(run=run, metric="ttft_ms", statistic="mean")
    assert (mean.value, mean.low, mean.high, mean.n, mean.mark) == (12.5, 11.0, 14.0, 40, "measured")
    assert Measurement.objects.get(run=run, metric="ttft_ms", statistic="p50").low is None
    assert len(rows(run)) == 40
    assert left_in_storage(run) == ["requests.parquet"]
    assert run.progress["sent"] > 10
    assert run.progress_series
    assert run.lease_expires_at is None


def test_numbers_that_are_not_finite_are_missing_and_not_zero(site: Site, benchmark: Make) -> None:
    run = execute(benchmark, "steady")
    assert not Measurement.objects.filter(metric="itl_ms").exists()
    assert run.summary
    assert run.summary["stages"][0]["metrics"]["itl_ms"]["mean"] is None
    json.dumps(run.summary, allow_nan=False)


def test_an_invalid_measurement_is_finished_with_its_reason(site: Site, benchmark: Make) -> None:
    run = execute(benchmark, "invalid")
    assert (run.status, run.valid, run.reason_code) == ("finished", False, "interrupted")
    assert run.reason == "Stopped early"


def test_an_endpoint_that_cannot_be_used_fails_the_run_in_the_instruments_words(site: Site, benchmark: Make) -> None:
    run = execute(benchmark, "unusable")
    assert (run.status, run.reason_code) == ("failed", "connect_refused")
    assert run.reason == "Nothing listens at that address and port."
    assert not run.requests_file


def test_a_cancel_stops_the_sending_and_keeps_what_was_measured(site: Site, benchmark: Make) -> None:
    run = execute_while(
        lambda run: states.request_cancel(run.pk), lambda _: len(site.sent()) > 10, benchmark, "steady", requests=1000
    )
    assert (run.status, run.reason_code, run.valid) == ("cancelled", "cancelled", False)
    assert 10 < len(rows(run)) < 1000
    stage = run.stages.get()
    assert stage.verdict == "interrupted"
    assert stage.ok == len(rows(run)) == len(site.sent())


def test_a_crash_of_the_instrument_keeps_its_rows_and_its_last_words(site: Site, benchmark: Make) -> None:
    run = execute(benchmark, "crash")
    assert (run.status, run.reason_code, run.valid) == ("failed", "instrument_crashed", False)
    assert "signal 11" in run.reason
    assert "about to crash" in run.reason
    assert run.stages.get().ok == len(rows(run)) == 6


def test_a_hung_instrument_that_ignores_sigterm_is_killed(site: Site, benchmark: Make, settings: Any) -> None:
    settings.RUN_SILENCE_S = 1.5
    run = execute(benchmark, "silent")
    assert (run.status, run.reason_code) == ("failed", "instrument_silent")
    assert len(rows(run)) == 6


def test_a_worker_whose_run_was_declared_lost_stops_and_changes_nothing(site: Site, benchmark: Make) -> None:
    def lose(run: Run) -> None:
        Run.objects.filter(pk=run.pk).update(status="lost")

    run = execute_while(lose, lambda _: site.sent(), benchmark, "steady", requests=1000)
    assert (run.status, run.valid, run.summary) == ("lost", None, None)
    assert len(site.sent()) < 1000
    assert not run.stages.exists()
    assert not [name for name in left_in_storage(run) if name.endswith(".parquet")]


def test_a_host_that_cannot_start_the_instrument_says_so(site: Site, benchmark: Make, settings: Any) -> None:
    settings.RUN_COMMAND = ["/no/such/program"]
    run = execute(benchmark, "steady")
    assert (run.status, run.reason_code) == ("failed", "load_host")
    assert "/no/such/program" in run.reason


def test_a_key_stored_under_another_field_key_fails_the_run_with_what_to_do(
    site: Site, benchmark: Make, settings: Any
) -> None:
    asked = benchmark(key=KEY)
    run = states.queue(asked, Run.Trigger.PAGE)
    settings.FIELD_KEYS = ["b" * 43 + "="]
    launch.execute(run.pk)
    run.refresh_from_db()
    assert run.status == "failed"
    assert "FIELD_KEYS" in run.reason


def test_a_storage_that_is_full_costs_the_raw_rows_and_not_the_summary(
    site: Site, benchmark: Make, settings: Any
) -> None:
    (site.directory / "media").write_text("a file where the folder should be")
    run = execute(benchmark, "steady")
    assert (run.status, run.valid) == ("finished", True)
    assert "raw rows could not be stored" in run.reason
    assert run.stages.get().ok == 10


def test_the_work_folder_is_gone_after_the_run(site: Site, benchmark: Make) -> None:
    execute(benchmark, "crash")
    assert not list((site.directory / "work").iterdir())


def test_a_key_that_the_endpoint_echoes_reaches_nothing_that_is_kept(
    site: Site, benchmark: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []

    def parts(run: Run) -> list[str]:
        folder = f"runs/{run.pk}/1"
        return default_storage.listdir(folder)[1] if default_storage.exists(folder) else []

    def look_into_the_work_folder(run: Run) -> None:
        seen.extend(path.read_bytes() for path in site.directory.glob("work/*/spec.json"))
        seen.extend(default_storage.open(f"runs/{run.pk}/1/{part}").read() for part in parts(run))

    run = execute_while(look_into_the_work_folder, parts, benchmark, "leak", requests=80, key=KEY)
    assert run.status == "finished"
    assert len(seen) >= 2
    assert Endpoint.objects.get().api_key == KEY
    assert {row["detail"] for row in rows(run)} == {"[key]"}
    assert "[key]" in str(run.progress)
    kept = [path.read_bytes() for path in Path(site.directory).rglob("*") if path.is_file()]
    kept += [json.dumps(Run.objects.values().get(), default=str).encode(), *seen]
    with connection.cursor() as cursor:
        cursor.execute("SELECT api_key FROM catalog_endpoint")
        kept.append(str(cursor.fetchall()).encode())
    assert not [data for data in kept if KEY.encode() in data]


def test_a_run_at_a_paid_endpoint_is_settled_by_its_rows(site: Site, benchmark: Make) -> None:
    """10 answers of 8 tokens and prompts of unknown length at their worst: 224 tokens each."""
    asked = benchmark("steady")
    endpoint = asked.deployment.endpoint
    endpoint.billing, endpoint.input_usd_per_mtok, endpoint.output_usd_per_mtok = "tokens", Decimal(10), Decimal(20)
    endpoint.save()
    run = states.queue(asked, Run.Trigger.PAGE)
    assert run.reserved_usd == Decimal("0.16")
    launch.execute(run.pk)
    run.refresh_from_db()
    assert run.status == "finished"
    assert run.settled_usd == Decimal("0.1032") + 10 * (224 * Decimal(10) + 8 * Decimal(20)) / 1_000_000


def test_a_changed_endpoint_refuses_what_was_queued_before_and_its_key_goes_nowhere(
    site: Site, benchmark: Make
) -> None:
    run = states.queue(benchmark("leak", key=KEY), Run.Trigger.PAGE)
    Endpoint.objects.update(url="http://127.0.0.1:10/other")
    launch.execute(run.pk)
    run.refresh_from_db()
    assert (run.status, run.reason_code) == ("failed", "endpoint_changed")
    assert "start it again" in run.reason
    assert site.sent() == []


def test_folders_of_killed_workers_are_removed_and_those_of_running_runs_stay(site: Site, benchmark: Make) -> None:
    held = states.claim(states.queue(benchmark(), Run.Trigger.PAGE).pk, "w")
    assert held
    work = site.directory / "work"
    for name in (f"{held.pk}-{held.epoch}", "77-1"):
        (work / name).mkdir(parents=True)
        (work / name / "requests.arrow").write_bytes(b"rows")
    execute(benchmark, "steady", requests=2, name="next")
    assert [path.name for path in work.iterdir()] == [f"{held.pk}-{held.epoch}"]
