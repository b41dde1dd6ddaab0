import csv
import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from observatory.pages.request_rows import page as request_rows_page
from observatory.runs.models import Measurement, Run
from runners.load.rows import StageRows
from runners.spec import Slo
from tests import factories
from tests.simulation import Plan, request_rows

pytestmark = pytest.mark.django_db
SMALL = Plan(levels=(1, 2), requests=50, output_tokens=8)


def page(client: Client, run: Run, query: str = "") -> str:
    answer = client.get(f"/runs/{run.pk}{query}")
    assert answer.status_code == 200
    return " ".join(strip_tags(answer.content.decode()).split())


def test_a_visitor_without_a_login_is_sent_to_log_in(client: Client) -> None:
    assert client.get("/runs/1").url.startswith("/login")


def test_the_title_says_model_hardware_benchmark_and_day(user_client: Client) -> None:
    run = factories.finished_run(factories.benchmark("smollm2", name="nightly"), SMALL)
    assert "smollm2 on CPU, nightly, 12 Nov" in page(user_client, run)


def test_the_best_stage_is_shown_first_and_another_by_its_address(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    assert "At concurrency 2 the stage with the highest output throughput" in page(user_client, run)
    assert "At concurrency 1" in page(user_client, run, "?stage=0")


def test_a_lower_load_that_cannot_be_told_from_the_highest_is_shown_first(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    rate = Measurement.objects.get(stage__run=run, stage__index=1, metric="output_tokens_per_s", statistic="mean")
    Measurement.objects.filter(pk=rate.pk).update(low=0.01 * rate.value, high=1.5 * rate.value)
    found = page(user_client, run)
    assert "At concurrency 1 the lowest load that does as well as concurrency 2, within its interval" in found


def test_with_an_slo_the_best_stage_is_that_of_the_highest_goodput(user_client: Client) -> None:
    plan = Plan(levels=(1, 16), requests=60, output_tokens=8, slo=Slo(ttft_ms=100))
    found = page(user_client, factories.finished_run(plan=plan))
    assert "At concurrency 1 the stage with the highest goodput" in found
    assert "Goodput" in found


def test_percentiles_of_too_few_samples_say_so_and_are_never_zero(user_client: Client) -> None:
    found = page(user_client, factories.finished_run(plan=SMALL))
    assert "too few samples for p99: 50, at least 459 are needed" in found
    assert "too few (n=50)" in found


def test_planned_is_always_the_sum_of_its_parts(user_client: Client) -> None:
    plan = Plan(levels=(2,), requests=60, failures=2, output_tokens=8)
    found = page(user_client, factories.finished_run(plan=plan))
    assert "60 planned = 58 ok + 2 failed + 0 cancelled + 0 not sent" in found


def test_the_servers_own_counts_stand_beside_ours(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    found = page(user_client, run, "?tab=server")
    assert "as vLLM told it on http://127.0.0.1:8080/metrics" in found
    assert "Generated tokens 400 tok 400 tok 0 tok equal" in found
    assert "KV cache in use" in found
    strips = user_client.get(f"/runs/{run.pk}/chart/server.json?stage=1").json()
    assert [axis for axis in strips["figure"]["layout"] if axis.startswith("yaxis")] == ["yaxis", "yaxis2", "yaxis3"]
    timeline = user_client.get(f"/runs/{run.pk}/chart/timeline.json?stage=1").json()
    ranges = [chart["figure"]["layout"]["xaxis"]["range"] for chart in (strips, timeline)]
    assert ranges[0] == pytest.approx(ranges[1])
    assert strips["columns"] == ["Time", "Running", "Queue", "KV cache in use"]


def test_other_traffic_is_told_on_the_page_and_a_missing_page_says_why(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    assert run.summary
    for stage in run.summary["stages"]:
        stage["server"]["agreement"][0] |= {
            "server": 999,
            "difference": 9,
            "verdict": "other_traffic",
            "text": "9 more",
        }
    run.save()
    assert "999 tok" in page(user_client, run, "?tab=server")
    run.summary["stages"][0]["server"] = run.summary["stages"][1]["server"] = None
    run.summary["server"]["notes"] = [{"code": "no_metrics_page", "text": "/metrics answers 404."}]
    run.save()
    assert "/metrics answers 404." in page(user_client, run, "?tab=server")


def test_several_load_hosts_are_told_with_their_clocks_and_verdicts(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    assert run.summary
    hosts = [("load-1", 0, 0, None), ("load-2", 1_250_000, 84_000, {"code": "shard_lost", "text": "it fell silent"})]
    run.summary["shards"] = [
        {"index": i, "host": host, "offset_ns": offset, "bound_ns": bound, "fault": fault, "environment": None}
        for i, (host, offset, bound, fault) in enumerate(hosts)
    ]
    client = run.summary["stages"][1]["client"]
    run.summary["stages"][1]["shards"] = [
        {"index": 0, "verdict": "ok", "client": client}, {"index": 1, "verdict": "client_limited", "client": client},
    ]  # fmt: skip
    run.save()
    found = page(user_client, run, "?tab=setup")
    assert "1 on load-2 clock +1.250 ± 0.084 ms it fell silent" in found
    assert "concurrency 2, 1 on load-2 (client_limited)" in found


def test_failures_are_told_by_class_with_help_and_one_example(user_client: Client) -> None:
    found = page(user_client, factories.invalid_run(), "?tab=requests")
    assert "These numbers are not valid." in found
    assert "70 of 120 requests: http_error. The server answered with an error status." in found
    assert "HTTP 503: {&quot;error&quot;: &quot;overloaded&quot;}" in found


def test_a_client_limited_stage_is_kept_and_marked(user_client: Client) -> None:
    plan = Plan(levels=(1, 2), requests=50, output_tokens=8, client_limited=(2,))
    found = page(user_client, factories.finished_run(plan=plan))
    assert "Not every stage may be used; those marked ok may." in found
    assert "limited by the load machine" in found
    assert "At concurrency 1" in found


def test_modelled_energy_is_marked_wherever_it_stands(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(1,), requests=50, energy="modelled"))
    html = user_client.get(f"/runs/{run.pk}?tab=energy").content.decode()
    assert html.count('class="number modelled"') >= 4
    assert "modelled" in page(user_client, run)
    told = page(user_client, run, "?tab=energy")
    assert "cpu model ~" in told
    assert "energy counter" not in told.lower()
    legend = user_client.get(f"/runs/{run.pk}/chart/timeline.json").json()["figure"]["data"]
    assert [trace["name"] for trace in legend if trace.get("yaxis") == "y4"] == ["CPU, model"]


def test_the_state_of_the_gpu_and_idle_power_on_both_sides_stand_by_the_energy(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(1,), requests=50, energy="measured"))
    told = page(user_client, run, "?tab=energy")
    state = told[told.index("Clocks held back by") :]
    assert re.search(
        r"NVIDIA H100 61.0 °C 61.0 °C 1.830 MHz 1.830 MHz –not measured 350 W –not measured nothing", state
    )
    assert "Idle power before the load 102 W" in told
    assert "Idle power after it 104 W" in told
    assert "Cost of reading the instruments 1.50 W" in told
    assert "Hottest GPU at the start 48.0 °C after waiting" in told


def test_without_energy_or_price_a_dash_carries_the_reason(user_client: Client) -> None:
    plan = Plan(levels=(1,), requests=50, energy="", usd_per_hour=None)
    run = factories.finished_run(plan=plan)
    found = page(user_client, run)
    assert "No power source was found" in found
    assert "the deployment had no price when this ran" in found
    assert "No energy for this stage." in page(user_client, run, "?tab=energy")
    assert "Give the deployment a price" in page(user_client, run, "?tab=cost")


def test_the_ledger_shows_narrow_and_full_side_by_side(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(2,), requests=60, pue=1.5))
    found = page(user_client, run, "?tab=energy")
    assert "active accelerators only" in found
    assert "(accelerator + cpu) × PUE" in found
    assert "agree within 5 %" in found
    without = page(user_client, factories.finished_run(plan=Plan(levels=(2,), requests=60)), "?tab=energy")
    assert "the PUE of the site is unknown" in without


def test_the_cost_names_its_basis_and_its_denominators(user_client: Client) -> None:
    found = page(user_client, factories.finished_run(plan=SMALL), "?tab=cost")
    assert "rent" in found
    assert "Cost per M output tokens" in found
    assert "never add the two" in found


def test_requests_are_paged_and_filtered_by_outcome(user_client: Client) -> None:
    run = factories.invalid_run()
    assert "120 requests, page 1 of 3" in page(user_client, run, "?tab=requests")
    assert "70 requests, page 2 of 2" in page(user_client, run, "?tab=requests&outcome=http_error&page=9")
    assert "120 requests, page 1 of 3" in page(user_client, run, "?tab=requests&outcome=nonsense&page=x")


def test_the_setup_gives_the_command_line(user_client: Client) -> None:
    found = page(user_client, factories.finished_run(plan=SMALL), "?tab=setup")
    assert "python -m runners bench" in found
    assert "--concurrency 1,2" in found
    assert "AMD EPYC 9354" in found


def test_every_tab_of_every_ended_state_opens(user_client: Client) -> None:
    runs = [factories.lost_run(), factories.cancelled_run(), factories.failed_run(), factories.invalid_run()]
    for run in runs:
        for tab in ("latency", "timeline", "energy", "cost", "server", "requests", "setup", "nonsense"):
            assert page(user_client, run, f"?tab={tab}")


def test_a_lost_run_says_what_happened_what_is_kept_and_what_to_do(user_client: Client) -> None:
    found = page(user_client, factories.lost_run())
    assert "The worker vanished while it measured." in found
    assert "What it had stored is kept" in found
    assert "Check the load host, then start a new run." in found
    assert "interrupted" in found


def test_a_lost_run_of_which_nothing_could_be_added_up_still_shows_its_rows(user_client: Client) -> None:
    run = factories.lost_run()
    run.stages.all().delete()
    Run.objects.filter(pk=run.pk).update(summary=None)
    assert "No stage has numbers." in page(user_client, run)
    assert "160 requests" in page(user_client, run, "?tab=requests")
    drawn = user_client.get(f"/runs/{run.pk}/chart/timeline.json").json()
    assert drawn["figure"] is not None


def test_a_failed_run_names_the_fix(user_client: Client) -> None:
    found = page(user_client, factories.failed_run())
    assert "Nothing usable was measured." in found
    assert "Start the server, or correct the port." in found
    assert "Run again" in found


def test_a_queued_run_says_that_the_broker_is_away(user_client: Client) -> None:
    assert "The message broker cannot be reached" in page(user_client, factories.queued_run())


def test_a_queued_run_says_that_no_worker_is_free(user_client: Client) -> None:
    run = factories.queued_run(dispatched_at=timezone.now())
    assert "celery -A observatory worker -Q bench -c 1" in page(user_client, run)


def test_a_queued_run_names_the_run_that_its_endpoint_is_busy_with(user_client: Client) -> None:
    of = factories.benchmark()
    busy = factories.running_run(of)
    first, second = factories.queued_run(of), factories.queued_run(of)
    assert f"It waits for run {busy.pk}" in page(user_client, second)
    Run.objects.filter(pk=busy.pk).update(status=Run.Status.FINISHED, valid=True)
    assert "1 other run waits for this endpoint before it." in page(user_client, second)
    assert "other run" not in page(user_client, first)


def test_a_running_run_shows_bar_stage_counts_and_the_time_left(user_client: Client) -> None:
    run = factories.running_run(plan=Plan(levels=(1, 2), requests=60), fraction=0.6)
    found = page(user_client, run)
    assert "Stage 2 of 2, concurrency 2." in found
    assert "About 12 s left." in found
    assert "72 of 120" in found
    html = user_client.get(f"/runs/{run.pk}").content.decode()
    assert 'hx-trigger="every 1s"' in html
    assert 'value="60.0"' in html


def test_a_run_that_has_only_started_has_no_numbers_yet(user_client: Client) -> None:
    run = factories.running_run()
    Run.objects.filter(pk=run.pk).update(progress={}, progress_series=[])
    assert "Starting." in page(user_client, run)


def test_progress_asks_for_the_whole_page_when_the_state_has_changed(user_client: Client) -> None:
    run = factories.running_run()
    still = user_client.get(f"/runs/{run.pk}/progress?status=running")
    assert "HX-Refresh" not in still.headers
    Run.objects.filter(pk=run.pk).update(status=Run.Status.FINISHED)
    assert user_client.get(f"/runs/{run.pk}/progress?status=running").headers["HX-Refresh"] == "true"


def test_the_live_chart_gives_only_what_is_new(user_client: Client) -> None:
    run = factories.running_run(plan=Plan(levels=(1,), requests=60), fraction=1.0)
    whole = user_client.get(f"/runs/{run.pk}/chart/live.json").json()["figure"]["data"][0]["x"]
    rest = user_client.get(f"/runs/{run.pk}/chart/live.json?after=13").json()["figure"]["data"][0]["x"]
    assert (len(whole), rest) == (15, [14.0, 15.0])


def test_cancelling_asks_first_and_says_that_it_is_on_its_way(user_client: Client) -> None:
    run = factories.running_run()
    assert "Stop this run? What it has measured is kept" in page(user_client, run)
    assert user_client.post(f"/runs/{run.pk}/cancel").status_code == 302
    assert "Cancelling." in page(user_client, run)


def test_run_again_queues_the_same_benchmark_and_leads_to_it(user_client: Client, settings: Any) -> None:
    settings.CELERY_BROKER_URL = "memory://"
    run = factories.finished_run(plan=SMALL)
    assert user_client.get(f"/runs/{run.pk}/again").status_code == 405
    answer = user_client.post(f"/runs/{run.pk}/again")
    new = Run.objects.get(status=Run.Status.QUEUED)
    assert answer.url == f"/runs/{new.pk}"
    assert new.benchmark == run.benchmark


def test_the_json_twin_is_the_summary_with_the_state(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    found = user_client.get(f"/runs/{run.pk}.json").json()
    assert found["status"] == "finished"
    assert found["summary"]["stages"][0]["metrics"]["ttft_ms"]["n"] == 50


def test_the_csv_twin_has_a_row_a_measurement(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    text = b"".join(user_client.get(f"/runs/{run.pk}.csv").streaming_content).decode()
    assert len(list(csv.DictReader(io.StringIO(text)))) == run.measurements.count()


def test_raw_rows_come_as_they_were_stored(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    data = b"".join(user_client.get(f"/runs/{run.pk}/requests.parquet").streaming_content)
    assert pq.read_table(io.BytesIO(data)).num_rows == 100
    assert user_client.get(f"/runs/{factories.failed_run().pk}/requests.parquet").status_code == 404


@pytest.mark.parametrize("name", ["load", "ecdf", "percentiles", "timeline", "energy", "live"])
def test_every_chart_answers_in_every_state(user_client: Client, name: str) -> None:
    runs = [factories.finished_run(plan=SMALL), factories.lost_run(), factories.failed_run(), factories.queued_run()]
    for run in runs:
        found = user_client.get(f"/runs/{run.pk}/chart/{name}.json?metric=tpot_ms&stage=77&after=x").json()
        assert found["figure"] is not None or found["note"]


def test_a_chart_that_does_not_exist_is_not_found(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    assert user_client.get(f"/runs/{run.pk}/chart/pie.json").status_code == 404
    assert user_client.get("/runs/999999").status_code == 404


def test_the_requests_tab_counts_time_per_token_as_the_stage_does(user_client: Client) -> None:
    """The first event may hold several tokens: they are left out of the count, as their time is."""
    table, _ = request_rows(Plan(levels=(1,), requests=3, output_tokens=9))
    position = table.schema.get_field_index("event_tokens")
    told = [[4] + [0] * (len(offsets) - 2) + [5] for offsets in table["event_offsets_ns"].to_pylist()]
    table = table.set_column(position, table.schema.field(position), pa.array(told, table.schema.field(position).type))
    shown = [row["tpot_ms"] for row in request_rows_page(table, 0, {}).rows if not row["warmup"]]
    values, _ = StageRows(table).tpot_ms
    assert shown == pytest.approx(list(values))


def test_the_setup_says_yes_and_no_and_what_was_not_told(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    run.summary["target"]["engine_version"] = "b0-unknown"
    run.save()
    found = page(user_client, run, "?tab=setup")
    assert "workload.ignore_eos yes" in found
    assert "engine_version not told" in found
    assert "b0-unknown" not in found


def test_a_calibration_of_too_few_requests_says_so_in_place_of_its_median(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    few = {"mean": 0.1, "p50": None, "p95": None, "max": 0.2, "n": 3}
    run.summary["stages"][0]["client"]["calibration"] = {"ttft_error_ms": few, "event_error_ms": few | {"p50": 0.1}}
    run.save()
    assert "too few (n=3)" in page(user_client, run, "?tab=setup")


def test_a_rate_without_an_interval_says_so_on_hover(user_client: Client) -> None:
    run = factories.finished_run(plan=Plan(levels=(1,), requests=20))
    html = user_client.get(f"/runs/{run.pk}").content.decode()
    assert re.search(r'title="[^"]*no interval"', html[html.index('class="stages"') :])
