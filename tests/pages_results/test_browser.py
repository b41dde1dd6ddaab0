"""The pages in a real Chromium. ``browser`` fails a test on any console error, policy violation or foreign request."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from playwright.sync_api import Page

from observatory.runs.models import Run
from runners.spec import Slo
from tests import factories
from tests.browser import Browser, log_in, screenshot, sideways, violations
from tests.simulation import Plan

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

#: What axe looks at in each: all, then what another theme can break.
THEMES = pytest.mark.parametrize(("theme", "rules"), [("light", ()), ("dark", ("color-contrast",))])
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1400, "height": 900}
SMALL = Plan(levels=(1, 2, 4), requests=50, output_tokens=8, slo=Slo(ttft_ms=200), pue=1.2)


@pytest.fixture(autouse=True)
def _login(browser: Browser, client: Client, user: User) -> None:
    log_in(browser, client, user)


def show(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("body[data-drawn]")


def change(run: Run, **fields: Any) -> None:
    """Writes to the run while a page is open: Playwright's own thread may not use the database."""

    def write() -> None:
        Run.objects.filter(pk=run.pk).update(**fields)
        connection.close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(write).result(10)


def charts(page: Page) -> int:
    """Figures with something drawn in them."""
    count: int = page.evaluate(
        "[...document.querySelectorAll('[data-chart] .plot')].filter(p => p.data?.length).length"
    )
    return count


def test_every_tab_draws_its_charts(browser: Browser) -> None:
    run = factories.finished_run(plan=SMALL)
    expected = {"latency": 4, "timeline": 3, "server": 3, "energy": 4, "cost": 3, "requests": 2, "setup": 2}

    def look(page: Page) -> dict[str, int]:
        drawn = {}
        for tab in expected:
            show(page, f"/runs/{run.pk}?tab={tab}")
            screenshot(page, f"run-{tab}")
            drawn[tab] = charts(page)
        return drawn

    assert browser.run(look, viewport=DESK) == expected


@THEMES
def test_the_run_page_is_accessible_and_fits_a_phone_in_each_state(browser: Browser, theme: Any, rules: Any) -> None:
    runs = [
        factories.finished_run(plan=SMALL),
        factories.invalid_run(plan=Plan(output_tokens=4)),
        factories.lost_run(plan=Plan(requests=60, output_tokens=4)),
        factories.failed_run(),
        factories.queued_run(),
        factories.running_run(),
    ]

    def look(page: Page) -> dict[str, Any]:
        troubles = {}
        for run in runs:
            show(page, f"/runs/{run.pk}")
            screenshot(page, f"run-{run.status}-{theme}")
            found = (violations(page, *rules), sideways(page))
            if found != ([], 0):
                troubles[run.status] = found
        return troubles

    assert browser.run(look, viewport=PHONE, color_scheme=theme) == {}


@pytest.mark.parametrize("tab", ["timeline", "server", "energy", "cost", "requests", "setup"])
def test_each_tab_is_accessible_and_fits_a_phone(browser: Browser, tab: str) -> None:
    run = factories.finished_run(plan=SMALL)

    def look(page: Page) -> tuple[list[str], int]:
        show(page, f"/runs/{run.pk}?tab={tab}")
        return violations(page), sideways(page)

    assert browser.run(look, viewport=PHONE) == ([], 0)


@THEMES
def test_the_compare_page_is_accessible_and_fits_a_phone(browser: Browser, theme: Any, rules: Any) -> None:
    first, second = (factories.finished_run(plan=SMALL) for _ in range(2))
    addresses = ("/compare", f"/compare?runs={first.pk}", f"/compare?runs={first.pk},{second.pk},999")

    def look(page: Page) -> list[Any]:
        found = []
        for address in addresses:
            show(page, address)
            screenshot(page, f"compare-{len(found)}-{theme}")
            found.append((violations(page, *rules), sideways(page)))
        return [*found, charts(page)]

    assert browser.run(look, viewport=PHONE, color_scheme=theme) == [*[([], 0)] * 3, 1]


@pytest.mark.parametrize(
    "name", ["<img src=x onerror=document.body.dataset.hit=1>", "%{x}%{customdata}", "a\u202ecod.exe"]
)
def test_a_hostile_model_name_is_only_text(browser: Browser, name: str) -> None:
    runs = [factories.finished_run(factories.benchmark(name, name=name), SMALL) for name in (name, name + "2")]

    def look(page: Page) -> tuple[str, str | None, int]:
        show(page, f"/compare?runs={runs[0].pk},{runs[1].pk}")
        show(page, f"/runs/{runs[0].pk}?tab=setup")
        show(page, f"/runs/{runs[0].pk}?tab=timeline")
        return page.inner_text("h1"), page.get_attribute("body", "data-hit"), page.locator("main img").count()

    heading, hit, images = browser.run(look, viewport=DESK)
    assert heading.startswith(name.replace("\u202e", "\\u202e"))
    assert (hit, images) == (None, 0)


def test_hover_shows_the_numbers_of_a_point_and_a_click_leads_to_its_stage(browser: Browser) -> None:
    run = factories.finished_run(plan=SMALL)

    def use(page: Page) -> tuple[str, str]:
        show(page, f"/runs/{run.pk}")
        point = page.locator(".plot .scatterlayer .points path").nth(0)
        point.scroll_into_view_if_needed()
        box = point.bounding_box() or {"x": 0, "y": 0, "width": 0, "height": 0}
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector(".hoverlayer .hovertext")
        text = page.locator(".hoverlayer .hovertext").first.text_content() or ""
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_url("**stage=0")
        page.wait_for_selector("body[data-drawn]")
        return text, page.inner_text("h2#headline")

    text, heading = browser.run(use, viewport=DESK)
    assert "End-to-end latency p50" in text
    assert "n = 50" in text
    assert heading == "At concurrency 1"


def test_show_as_table_holds_the_numbers_of_the_chart(browser: Browser) -> None:
    run = factories.finished_run(plan=SMALL)

    def open_table(page: Page) -> str:
        show(page, f"/runs/{run.pk}")
        page.click(".chart summary >> nth=0")
        return page.inner_text(".chart table >> nth=0")

    table = browser.run(open_table, viewport=DESK)
    assert "End-to-end latency p50" in table
    assert "concurrency 4" in table


def test_the_theme_switch_recolours_the_charts(browser: Browser) -> None:
    run = factories.finished_run(plan=SMALL)

    def switch(page: Page) -> tuple[str, str]:
        show(page, f"/runs/{run.pk}")
        colour = "document.querySelector('.plot').layout.font.color"
        before = page.evaluate(colour)
        page.click("[data-theme-switch]")
        page.click("[data-theme-switch]")
        page.wait_for_timeout(300)
        return before, page.evaluate(colour)

    before, after = browser.run(switch, viewport=DESK, color_scheme="light")
    assert before != after


def test_no_button_sends_a_chart_to_a_vendor(browser: Browser) -> None:
    run = factories.finished_run(plan=SMALL)

    def look(page: Page) -> tuple[int, bool]:
        show(page, f"/runs/{run.pk}")
        return page.locator(".modebar-btn").count(), page.evaluate("CONFIG.showSendToCloud")

    assert browser.run(look, viewport=DESK) == (0, False)


def test_a_running_run_moves_and_turns_into_its_results(browser: Browser) -> None:
    plan = Plan(levels=(1, 2), requests=50, output_tokens=8)
    run = factories.running_run(plan=plan, fraction=0.5)
    series = factories.progress_series(plan, 0.6)
    lengths = "document.querySelector('[data-live] .plot').data[0].x.length"

    def watch(page: Page) -> tuple[int, int, str]:
        show(page, f"/runs/{run.pk}")
        before = page.evaluate(lengths)
        page.evaluate("document.querySelector('[data-live] .plot').dataset.kept = 'yes'")
        change(run, progress=series[-1], progress_series=series)
        page.wait_for_selector("#state strong:text('Measuring')")
        page.wait_for_selector("progress[value='60.0']")
        page.wait_for_timeout(500)
        after = page.evaluate(lengths)
        assert page.locator(".plot[data-kept]").count() == 1
        change(run, status=Run.Status.FAILED, reason="Disk full.", ended_at=datetime.now(UTC), valid=False)
        page.wait_for_selector(".notice.error")
        page.wait_for_selector("body[data-drawn]")
        return before, after, page.inner_text(".notice.error")

    before, after, words = browser.run(watch, viewport=DESK)
    assert (before, after) == (15, 18)
    assert "Disk full." in words


def test_cancelling_takes_two_clicks(browser: Browser) -> None:
    run = factories.running_run()

    def cancel(page: Page) -> str:
        show(page, f"/runs/{run.pk}")
        page.click("summary:text('Cancel')")
        page.click("button:text('Stop the run')")
        page.wait_for_selector("body[data-drawn]")
        return page.inner_text("#state")

    assert "Cancelling." in browser.run(cancel, viewport=DESK)
    run.refresh_from_db()
    assert run.cancel_requested_at is not None


def test_a_chart_that_cannot_be_loaded_says_what_to_do(browser: Browser) -> None:
    run = factories.finished_run(plan=SMALL)

    def look(page: Page) -> str:
        page.route("**/chart/load.json", lambda route: route.fulfill(body="not JSON"))
        show(page, f"/runs/{run.pk}")
        return page.inner_text(".plot >> nth=0")

    assert browser.run(look, viewport=DESK).startswith("The chart could not be loaded. Reload the page")
