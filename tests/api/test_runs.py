import io
import json
from typing import Any

import pyarrow.parquet as pq
import pytest

from observatory.benchmarks.models import Benchmark
from observatory.runs.models import Run
from tests.api.conftest import Caller
from tests.factories import benchmark, cancelled_run, failed_run, finished_run, lost_run, queued_run, running_run
from tests.services.valkey import Valkey
from tests.simulation import Plan

pytestmark = pytest.mark.django_db

SMALL = Plan(levels=(1, 2), requests=60)


def read(response: Any) -> bytes:
    return b"".join(response.streaming_content)


def body(of: Benchmark) -> dict[str, Any]:
    return {"name": "new", "deployment_id": of.deployment_id, "load": {"levels": [1, 4], "requests": 20}}


def test_a_benchmark_is_made_read_changed_and_deleted(as_user: Caller) -> None:
    made = as_user.post("/benchmarks", {**body(benchmark()), "slo_ttft_ms": 500})
    assert made.status_code == 201
    key = made.json()["id"]
    load = made.json()["load"]
    assert (load["levels"], made.json()["slo_ttft_ms"], load["duration_s"]) == ([1, 4], 500, None)
    assert made.json()["workload"]["source"] == {"kind": "synthetic"}
    assert Benchmark.objects.get(pk=key).created_by.username == "una"  # type: ignore[union-attr]
    load = {"arrivals": "poisson", "levels": [0.5], "requests": 20}
    changed = as_user.patch(f"/benchmarks/{key}", {"load": load}).json()
    assert (changed["load"] | load, changed["slo_ttft_ms"]) == (changed["load"], 500)
    assert as_user.delete(f"/benchmarks/{key}").status_code == 204


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"requests": None}, "load", "say when a stage ends"),
        ({"levels": []}, "load.levels", "at least one"),
        ({"levels": [0]}, "load.levels", "each above 0"),
        ({"levels": [1.5]}, "load.levels", "whole number"),
        ({"levels": [1e400]}, "load.levels", "finite"),
        ({"levels": [10**400]}, "load.levels[0]", "too large"),
        ({"levels": [1e300]}, "load.levels", "can never be reached"),
        ({"levels": [1] * 101}, "load.levels", "at most 100"),
        ({"duration_s": 90_000}, "load.duration_s", "at most 86400"),
        ({"warmup_s": -1}, "load.warmup_s", "between 0 and 3600"),
        ({"arrivals": "bursty"}, "load.arrivals", "poisson"),
        ({"arrivals": "replay"}, "load.arrivals", "takes its times from a trace"),
        ({"search": {"goal": "slo"}}, "load.search", "which SLO"),
        ({"levles": [1]}, "load.levles", "no such field"),
    ],
)
def test_a_benchmark_that_could_not_run_is_refused_with_its_field(
    as_user: Caller, change: dict[str, Any], field: str, words: str
) -> None:
    asked = body(benchmark())
    answer = as_user.post("/benchmarks", {**asked, "load": {**asked["load"], **change}})
    assert answer.status_code == 422
    assert words in {fault["field"]: fault["problem"] for fault in answer.json()["fields"]}[field]
    assert not Benchmark.objects.filter(name="new").exists()


def test_a_change_that_could_not_run_leaves_the_benchmark_as_it_was(as_user: Caller) -> None:
    of = benchmark()
    assert as_user.patch(f"/benchmarks/{of.pk}", {"load": {"levels": [1]}, "name": "x"}).status_code == 422
    of.refresh_from_db()
    assert (of.load["requests"], of.name != "x") == (120, True)


def test_a_benchmark_with_runs_is_kept(as_user: Caller) -> None:
    run = queued_run()
    assert as_user.delete(f"/benchmarks/{run.benchmark_id}").json()["code"] == "in_use"


@pytest.mark.django_db(transaction=True)
def test_starting_a_run_queues_it_and_wakes_a_worker(as_user: Caller, valkey: Valkey) -> None:
    started = as_user.post("/runs", {"benchmark_id": benchmark().pk})
    assert started.status_code == 201
    assert (started.json()["status"], started.json()["trigger"], started.json()["notice"]) == ("queued", "api", "")
    run = Run.objects.get()
    assert (run.pk, run.started_by.username) == (started.json()["id"], "una")  # type: ignore[union-attr]
    [message] = valkey.client().lrange("observatory:bench", 0, -1)
    assert json.loads(message)["headers"]["argsrepr"] == f"[{run.pk}]"


def test_with_a_dead_broker_a_run_still_queues_and_the_answer_says_so(as_user: Caller) -> None:
    started = as_user.post("/runs", {"benchmark_id": benchmark().pk})
    assert started.status_code == 201
    assert "broker" in started.json()["notice"]
    assert Run.objects.get().status == Run.Status.QUEUED


def test_a_run_of_a_benchmark_that_can_no_longer_run_is_refused(as_user: Caller) -> None:
    of = benchmark()
    Benchmark.objects.update(load={"levels": []})
    answer = as_user.post("/runs", {"benchmark_id": of.pk})
    assert answer.status_code == 422
    assert "levels" in answer.json()["fields"][0]["problem"]


def test_a_run_of_no_benchmark_is_not_found(as_user: Caller) -> None:
    answer = as_user.post("/runs", {"benchmark_id": 77})
    assert (answer.status_code, answer.json()["detail"]) == (404, "There is no benchmark 77.")


def test_a_queued_run_is_cancelled_at_once_and_a_running_one_is_asked(as_user: Caller) -> None:
    queued, running = queued_run(), running_run()
    assert as_user.post(f"/runs/{queued.pk}/cancel").json()["status"] == "cancelled"
    answer = as_user.post(f"/runs/{running.pk}/cancel").json()
    assert answer["status"] == "running"
    assert answer["cancel_requested_at"]


def test_an_ended_run_cannot_be_cancelled(as_user: Caller) -> None:
    answer = as_user.post(f"/runs/{failed_run().pk}/cancel")
    assert (answer.status_code, answer.json()["code"]) == (409, "ended")


def test_a_running_run_shows_its_progress(as_user: Caller) -> None:
    run = running_run()
    shown = as_user.get(f"/runs/{run.pk}").json()
    assert shown["progress"]["fraction"] == run.progress["fraction"]
    assert (shown["summary"], shown["stages"], shown["valid"]) == (None, [], None)


def test_a_finished_run_shows_summary_and_stages(as_user: Caller) -> None:
    run = finished_run(plan=SMALL)
    shown = as_user.get(f"/runs/{run.pk}").json()
    assert [stage["load_value"] for stage in shown["stages"]] == [1, 2]
    for stage in shown["stages"]:
        assert stage["planned"] == stage["ok"] + stage["failed"] + stage["cancelled"] + stage["not_sent"]
    assert shown["summary"]["clock"] == "kernel"
    assert shown["benchmark"] == run.benchmark.name


def test_runs_are_listed_newest_first_and_filtered(as_user: Caller) -> None:
    runs = [failed_run(), finished_run(plan=SMALL), lost_run(), cancelled_run(plan=SMALL)]
    keys = [run.pk for run in runs]

    def listed(query: str) -> list[int]:
        return [item["id"] for item in as_user.get(f"/runs?{query}").json()["items"]]

    assert listed("") == keys[::-1]
    assert listed("status=lost") == [keys[2]]
    assert listed("valid=true") == [keys[1]]
    assert listed(f"benchmark_id={runs[0].benchmark_id}") == [keys[0]]
    assert listed(f"endpoint_id={runs[3].endpoint_id}&status=finished") == []
    assert listed("limit=1&offset=1") == [keys[2]]
    assert listed("queued_before=2020-01-01T00:00:00Z") == []
    assert listed("queued_from=2020-01-01T00:00:00%2B02:00&valid=true") == [keys[1]]


@pytest.mark.parametrize(
    "query",
    [
        "status=asleep",
        "stauts=lost",
        "valid=perhaps",
        "queued_from=0.5",
        "queued_from=2026-01-01T00:00:00",
        "queued_from=0001-01-01T00:00:00%2B14:00",
    ],
)
def test_a_filter_that_makes_no_sense_is_refused_with_its_name(as_user: Caller, query: str) -> None:
    for path in ("runs", "runs.csv"):
        answer = as_user.get(f"/{path}?{query}")
        assert answer.status_code == 422
        assert answer.json()["fields"][0]["field"] == query.split("=")[0]


def test_measurements_are_filtered_by_metric_statistic_and_stage(as_user: Caller) -> None:
    run = finished_run(plan=SMALL)

    def found(query: str) -> list[dict[str, Any]]:
        return as_user.get(f"/runs/{run.pk}/measurements?{query}").json()["items"]  # type: ignore[no-any-return]

    p50 = found("metric=ttft_ms&statistic=p50")
    assert [(item["stage"], item["unit"], item["n"]) for item in p50] == [(0, "ms", 60), (1, "ms", 60)]
    assert p50[0]["value"] == run.measurements.get(stage__index=0, metric="ttft_ms", statistic="p50").value
    assert {item["metric"] for item in found("stage=1&limit=1000")} == set(
        run.measurements.filter(stage__index=1).values_list("metric", flat=True)
    )
    assert found("metric=nonsense") == []


def test_raw_rows_come_in_pages_and_as_the_stored_file(as_user: Caller) -> None:
    run = finished_run(plan=SMALL)
    first = as_user.get(f"/runs/{run.pk}/requests?limit=50").json()
    rest = as_user.get(f"/runs/{run.pk}/requests?limit=1000&offset=50").json()
    assert (len(first["items"]), len(rest["items"]), first["count"]) == (50, 70, 120)
    stored = read(as_user.get(f"/runs/{run.pk}/requests.parquet"))
    assert stored == run.requests_file.open().read()
    assert first["items"] + rest["items"] == pq.read_table(io.BytesIO(stored)).to_pylist()
    assert as_user.get(f"/runs/{run.pk}/power?limit=2").json()["count"] > 2
    assert as_user.get(f"/runs/{run.pk}/power.parquet")["Content-Type"] == "application/vnd.apache.parquet"
    assert as_user.get(f"/runs/{run.pk}/server?limit=2").json()["items"][0]["metric"] == "prompt_tokens"
    assert as_user.get(f"/runs/{run.pk}/server.parquet")["Content-Type"] == "application/vnd.apache.parquet"


@pytest.mark.parametrize("path", ["requests", "requests.parquet", "power", "power.parquet", "server"])
def test_rows_that_are_not_kept_are_not_found(as_user: Caller, path: str) -> None:
    run = queued_run()
    answer = as_user.get(f"/runs/{run.pk}/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_rows")


def test_rows_whose_file_is_gone_or_broken_are_not_found(as_user: Caller) -> None:
    run = finished_run(plan=SMALL)
    run.requests_file.storage.delete(run.requests_file.name)
    assert as_user.get(f"/runs/{run.pk}/requests").json()["code"] == "no_rows"
    assert as_user.get(f"/runs/{run.pk}/requests.parquet").json()["code"] == "no_rows"
    with run.power_file.storage.open(run.power_file.name, "wb") as file:
        file.write(b"PAR1 not really")
    assert as_user.get(f"/runs/{run.pk}/power").json()["code"] == "no_rows"


def test_sheets_of_all_runs_and_of_one(as_user: Caller) -> None:
    run, _ = finished_run(plan=SMALL), failed_run()
    every = read(as_user.get("/runs.csv")).decode().splitlines()
    assert len(every) == 1 + 1 + 2
    assert len(read(as_user.get("/runs.csv?status=failed")).decode().splitlines()) == 2
    long = read(as_user.get(f"/runs/{run.pk}.csv")).decode().splitlines()
    assert len(long) == 1 + run.measurements.count()
    wide = read(as_user.get(f"/runs/{run.pk}.csv?form=wide")).decode().splitlines()
    assert wide == [every[0], *every[2:]]
    answer = as_user.get("/runs.csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="runs.csv"' in answer["Content-Disposition"]


def test_stages_are_compared(as_user: Caller) -> None:
    slow, fast = finished_run(plan=Plan(levels=(1,), ttft_ms=90)), finished_run(plan=Plan(levels=(1,), ttft_ms=30))
    query = f"stage={slow.pk}.0&stage={fast.pk}.0"
    compared = as_user.get(f"/comparison?{query}").json()
    row = next(
        row for row in compared["rows"] if (row["metric"], row["statistic"], row["run"]) == ("ttft_ms", "p50", fast.pk)
    )
    assert (row["verdict"], row["delta"] < 0) == ("better", True)
    sheet = read(as_user.get(f"/comparison.csv?{query}")).decode().splitlines()
    assert len(sheet) == 1 + len(compared["rows"])


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("stage=1.0", 422),
        ("", 422),
        ("stage=1&stage=2", 422),
        ("stage=1.0&stage=1.0", 422),
        ("stage=8.0&stage=9.0", 404),
    ],
)
def test_a_comparison_that_cannot_be_made_says_why(as_user: Caller, query: str, status: int) -> None:
    for path in ("comparison", "comparison.csv"):
        answer = as_user.get(f"/{path}?{query}")
        assert answer.status_code == status
        assert answer.json()["fix"]
