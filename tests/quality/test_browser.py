"""The chart of quality against cost in a real browser."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from tests import factories
from tests.browser import Browser, log_in, violations
from tests.factories import quality_result

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_quality_against_cost_is_drawn_and_accessible(browser: Browser, client: Client, db: None, theme: str) -> None:
    run = factories.finished_run()
    quality_result(run.deployment, beside=run)
    log_in(browser, client, User.objects.create(username="ada"))

    def look(page: Page) -> tuple[int, list[str]]:
        page.goto("/quality?axis=wh_per_query")
        page.wait_for_selector(".plot .main-svg")
        return page.locator(".plot .point").count(), violations(page)

    assert browser.run(look, color_scheme=theme, viewport={"width": 1400, "height": 900}) == (1, [])
