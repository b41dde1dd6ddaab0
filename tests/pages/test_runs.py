import csv
import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page
from pytest_django import DjangoAssertNumQueries

from observatory.runs.models import Run
from tests import factories
from tests.browser import Browser, log_in
from tests.pages.cast import HOSTILE
from tests.simulation import Plan

SMALL = Plan(levels=(1, 4), requests=20)


def listed(client: Client, query: str = "") -> list[int]:
    return [row["id"] for row in client.get(f"/runs.json{query}").json()["rows"]]


def shown(client: Client, query: str = "") -> list[int]:
    table = client.get(f"/runs{query}").context["table"]
    return [row.record.pk for row in table.paginated_rows]


def test_the_number_of_queries_does_not_grow_with_the_list(
    user_client: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    benchmark = factories.benchmark()
    for count in (2, 6):
        for _ in range(count):
            factories.finished_run(benchmark, SMALL)
        factories.queued_run(benchmark)
        with django_assert_num_queries(
            9
        ):  # session, user, count, is anything live, three lists of choices, runs, numbers
            assert user_client.get("/runs?sort=-ttft_ms_p50&deployment=&status=finished").status_code == 200


def test_numbers_come_from_the_stage_with_the_highest_throughput(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    row = user_client.get("/runs.json").json()["rows"][0]
    peak = run.stages.get(load_value=4)
    assert (row["load_kind"], row["load_value"]) == ("concurrency", 4)
    for column, metric, statistic in (
        ("ttft_ms_p50", "ttft_ms", "p50"),
        ("output_tokens_per_s", "output_tokens_per_s", "mean"),
    ):
        assert row[column] == peak.measurements.get(metric=metric, statistic=statistic).value


def test_a_stage_that_the_client_limited_is_passed_over(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    run.stages.filter(load_value=4).update(verdict="client_limited")
    assert user_client.get("/runs.json").json()["rows"][0]["load_value"] == 1


def test_columns_are_chosen_in_the_url(user_client: Client) -> None:
    factories.finished_run(plan=SMALL)
    page = user_client.get("/runs?columns=e2e_ms_p50&columns=power_w&columns=nonsense").content.decode()
    head = page.split("<thead>")[1].split("</thead>")[0]
    assert "End-to-end latency p50" in head
    assert "Mean power" in head
    assert "TTFT" not in head


def test_sorting_puts_runs_without_a_number_last_either_way(user_client: Client) -> None:
    slow = factories.finished_run(plan=Plan(levels=(1,), requests=20, ttft_ms=500.0))
    none = factories.failed_run()
    fast = factories.finished_run(plan=Plan(levels=(1,), requests=20, ttft_ms=50.0))
    assert shown(user_client, "?sort=ttft_ms_p50") == [fast.pk, slow.pk, none.pk]
    assert shown(user_client, "?sort=-ttft_ms_p50") == [slow.pk, fast.pk, none.pk]
    assert shown(user_client, "?sort=-nonsense") == [fast.pk, none.pk, slow.pk]


def test_filters_narrow_the_list_and_stand_as_chips(user_client: Client) -> None:
    kept = factories.finished_run(factories.benchmark(name="chat"), SMALL)
    lost = factories.lost_run(factories.benchmark(name="code"))
    queued = factories.queued_run(factories.benchmark(name="chat long"), trigger="schedule")
    assert listed(user_client, "?q=chat") == [queued.pk, kept.pk]
    assert listed(user_client, f"?q={lost.pk}+code") == [lost.pk]
    assert listed(user_client, "?q=fell+silent") == [lost.pk]
    assert listed(user_client, "?status=lost&status=queued") == [queued.pk, lost.pk]
    assert listed(user_client, "?trigger=schedule") == [queued.pk]
    assert listed(user_client, f"?deployment={kept.deployment_id}") == [kept.pk]
    assert listed(user_client, "?until=2001-01-01") == []
    page = user_client.get("/runs?status=lost&q=code&page=3").content.decode()
    assert 'href="?q=code"' in page
    assert 'href="?status=lost"' in page


def test_a_filter_that_cannot_be_read_is_left_out_and_said(user_client: Client) -> None:
    run = factories.queued_run()
    page = user_client.get("/runs?status=sleeping&since=yesterday").content.decode()
    assert page.count("This filter was left out") == 2
    assert f'href="/runs/{run.pk}"' in page


@pytest.mark.parametrize("query", ["?page=99", "?page=x", "?page=-1", "?per_page=0", "?per_page=999999999999"])
def test_a_page_that_is_not_there_shows_the_nearest_one(user_client: Client, query: str) -> None:
    run = factories.queued_run()
    assert shown(user_client, query) == [run.pk]


def test_the_sheet_has_a_row_for_each_stage_of_the_filtered_runs(user_client: Client) -> None:
    run = factories.finished_run(plan=SMALL)
    factories.failed_run()
    text = user_client.get("/runs.csv?status=finished").getvalue().decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["run"], row["load_value"]) for row in rows] == [(str(run.pk), "1.0"), (str(run.pk), "4.0")]


def test_hostile_names_stay_text(staff_client: Client) -> None:
    run = factories.cancelled_run(factories.benchmark(model=HOSTILE, name=HOSTILE))
    of = (run.benchmark, run.deployment, run.endpoint)
    for address in (
        "/",
        "/runs?q=img",
        "/benchmarks",
        "/deployments",
        "/endpoints",
        *(x.get_absolute_url() for x in of),
    ):
        page = staff_client.get(address).content.decode()
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page


def test_cancelling_stops_a_queued_run_and_asks_a_running_one(user_client: Client) -> None:
    queued, running = factories.queued_run(), factories.running_run()
    answer = user_client.post(f"/runs/{queued.pk}/cancel", {"next": "/"})
    assert answer.url == "/"
    answer = user_client.post(f"/runs/{running.pk}/cancel", {"next": "https://evil.example/"})
    assert answer.url == f"/runs/{running.pk}"
    assert Run.objects.get(pk=queued.pk).status == "cancelled"
    assert Run.objects.get(pk=running.pk).cancel_requested_at
    page = user_client.post(f"/runs/{queued.pk}/cancel", {"next": "/runs"}, follow=True).content.decode()
    assert "had ended already" in page


def test_a_list_without_anything_live_does_not_poll(user_client: Client) -> None:
    factories.failed_run()
    assert "hx-trigger" not in user_client.get("/runs").content.decode()
    factories.queued_run()
    assert 'hx-trigger="every 4s"' in user_client.get("/runs").content.decode()


@pytest.mark.browser
def test_rows_are_picked_with_shift_and_compared_with_a_key(browser: Browser, client: Client, user: User) -> None:
    benchmark = factories.benchmark()
    runs = [factories.finished_run(benchmark, SMALL) for _ in range(3)]
    log_in(browser, client, user)

    def pick(page: Page) -> tuple[Any, ...]:
        page.goto("/runs")
        page.wait_for_selector("body[data-ready]")
        before = page.is_enabled("[data-compare]")
        page.click(f"#pick-{runs[2].pk}")
        page.click(f"#pick-{runs[0].pk}", modifiers=["Shift"])
        label = page.inner_text("[data-compare]").split()
        page.keyboard.press("c")
        page.wait_for_url("**/compare?**")
        return before, label, page.url

    before, label, url = browser.run(pick)
    assert (before, label) == (False, ["Compare", "(3)"])
    assert all(f"run={run.pk}" in url for run in runs)


@pytest.mark.browser
def test_the_list_follows_its_runs_and_picks_stay(browser: Browser, client: Client, user: User) -> None:
    run = factories.queued_run()
    log_in(browser, client, user)

    def watch(page: Page) -> tuple[bool, bool]:
        page.goto("/runs")
        page.wait_for_selector("body[data-ready]")
        page.click(f"#pick-{run.pk}")
        token = page.evaluate("JSON.parse(document.body.getAttribute('hx-headers'))['X-CSRFToken']")
        page.request.post(f"/runs/{run.pk}/cancel", headers={"X-CSRFToken": token})
        page.wait_for_selector(".badge:has-text('cancelled')")
        return page.is_checked(f"#pick-{run.pk}"), page.is_visible("[hx-trigger]")

    assert browser.run(watch) == (True, False)


@pytest.mark.parametrize("name", ["benchmark", "deployment", "endpoint"])
def test_a_number_that_no_database_can_hold_is_told_as_unknown(user_client: Client, name: str) -> None:
    page = user_client.get(f"/runs?{name}=99999999999999999999999")
    assert page.status_code == 200
    assert "is not one of the available choices" in page.content.decode()
