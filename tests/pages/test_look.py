"""Every page in a real browser: accessible, as wide as its window, alone on the network, in both themes."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from tests.browser import Browser, log_in, screenshot, sideways, violations
from tests.pages.cast import Cast, fill

pytestmark = pytest.mark.browser

Address = Callable[[Cast], str]
PAGES: dict[str, Address] = {
    "overview": lambda cast: "/",
    "welcome": lambda cast: f"/welcome?endpoint={cast.endpoint.pk}",
    "runs": lambda cast: "/runs",
    "runs-filtered": lambda cast: "/runs?status=finished&status=lost&q=chat&sort=-ttft_ms_p50&columns=ttft_ms_p50",
    "endpoints": lambda cast: "/endpoints",
    "endpoint": lambda cast: f"/endpoints/{cast.endpoint.pk}",
    "endpoint-form": lambda cast: f"/endpoints/{cast.endpoint.pk}/edit",
    "deployments": lambda cast: "/deployments",
    "deployment": lambda cast: f"/deployments/{cast.deployment.pk}",
    "deployment-form": lambda cast: f"/deployments/{cast.deployment.pk}/edit",
    "hardware": lambda cast: "/hardware",
    "hardware-item": lambda cast: "/hardware/h100-sxm",
    "sites": lambda cast: "/sites?q=google",
    "embodied": lambda cast: "/embodied",
    "benchmarks": lambda cast: "/benchmarks",
    "benchmark": lambda cast: f"/benchmarks/{cast.benchmark.pk}",
    "benchmark-form": lambda cast: f"/benchmarks/{cast.benchmark.pk}/edit",
    "schedules": lambda cast: "/schedules",
    "schedule": lambda cast: f"/schedules/{cast.schedule.pk}",
    "schedule-form": lambda cast: f"/schedules/{cast.schedule.pk}/edit",
    "studies": lambda cast: "/studies",
    "study": lambda cast: f"/studies/{cast.study.pk}",
    "study-choose": lambda cast: "/studies/new",
    "study-ready": lambda cast: "/studies/new/prefix-caching",
    "study-form": lambda cast: f"/studies/new/own?copy={cast.study.pk}",
    "quality": lambda cast: "/quality",
    "quality-result": lambda cast: f"/quality/{cast.quality.pk}?show=all",
    "tokens": lambda cast: "/tokens",
}
EMPTY = (
    "welcome",
    "runs",
    "endpoints",
    "deployments",
    "hardware",
    "sites",
    "embodied",
    "benchmarks",
    "schedules",
    "studies",
    "quality",
    "tokens",
)
NEW = ("endpoints/new", "deployments/new", "benchmarks/new", "quality/new", "quality/upload", "quality/task-set")


def look(browser: Browser, pages: dict[str, str], theme: str, widths: tuple[int, ...], *rules: str) -> dict[str, Any]:
    """What is wrong with each page, if anything; by all rules or by these."""

    def visit(page: Page) -> dict[str, Any]:
        wrong = {}
        for name, address in pages.items():
            page.goto(address)
            page.wait_for_selector("body[data-ready]")
            page.wait_for_load_state("networkidle")
            found = (violations(page, *rules), {width: too_wide(page, f"{name}-{theme}", width) for width in widths})
            if found != ([], dict.fromkeys(widths, 0)):
                wrong[name] = found
        return wrong

    return browser.run(visit, color_scheme=theme)


def too_wide(page: Page, name: str, width: int) -> int:
    page.set_viewport_size({"width": width, "height": 800})
    for _ in range(50):  # charts follow their window a moment later
        if not sideways(page):
            break
        page.wait_for_timeout(100)
    screenshot(page, f"{name}-{width}")
    return sideways(page)


@pytest.mark.parametrize(
    ("theme", "widths", "rules"), [("light", (360, 1400), ()), ("dark", (1400, 2560), ("color-contrast",))]
)
def test_filled_pages_are_accessible_and_fit_their_window(
    browser: Browser, client: Client, staff: User, theme: str, widths: tuple[int, ...], rules: tuple[str, ...]
) -> None:
    cast = fill(staff)
    log_in(browser, client, staff)
    assert look(browser, {name: address(cast) for name, address in PAGES.items()}, theme, widths, *rules) == {}


def test_empty_pages_are_accessible_and_fit_their_window(browser: Browser, client: Client, staff: User) -> None:
    log_in(browser, client, staff)
    pages = {f"empty-{name.replace('/', '-')}": f"/{name}" for name in EMPTY + NEW}
    assert look(browser, pages, "dark", (360, 1400)) == {}
