"""The Cost tab's switches in a real Chromium."""

from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from observatory.catalog.models import Site
from tests import factories
from tests.browser import Browser, log_in, screenshot, sideways, violations
from tests.simulation import Plan

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PLAN = Plan(levels=(1, 2, 4), requests=120, output_tokens=32, pue=1.2)


@pytest.fixture
def run(browser: Browser, client: Client, user: User) -> Any:
    log_in(browser, client, user)
    factories.seeded()
    made = factories.benchmark(plan=PLAN)
    hall = Site.objects.create(slug="hall", name="Our hall")
    hall.factors.create(
        effective_from=date(2026, 1, 1), pue=1.2, wue_l_per_kwh=1.8, electricity_usd_per_kwh=0.12, grid_g_per_kwh=380,
        source="meter and contract",
    )  # fmt: skip
    made.deployment.site = hall
    made.deployment.save()
    return factories.finished_run(made, PLAN)


def first_cost(page: Page) -> str:
    return page.locator("#priced tbody tr").first.locator("td").nth(1).inner_text()


def test_basis_and_utilisation_change_the_costs_and_the_address(browser: Browser, run: Any) -> None:
    def look(page: Page) -> list[str]:
        page.goto(f"/runs/{run.pk}?tab=cost")
        page.wait_for_selector("body[data-drawn]")
        seen = [first_cost(page)]
        with page.expect_response(lambda answer: "utilisation=50" in answer.url and "chart" in answer.url):
            slider = page.locator("input[type=range]")
            slider.fill("495")
            slider.dispatch_event("change")
        page.wait_for_selector("caption:has-text('At 50 % utilisation')")
        seen.append(first_cost(page))
        page.get_by_label("Electricity only").check()
        page.wait_for_selector("#priced dd:has-text('W × PUE')")
        seen.append(first_cost(page))
        screenshot(page, "run-cost-electricity")
        assert "basis=electricity" in page.url
        page.reload()
        return [*seen, first_cost(page)]

    full, half, electricity, again = browser.run(look, viewport={"width": 1400, "height": 900})
    number = [float(text.split("\n")[0].strip("~? ").split()[0].replace("\u2009", "")) for text in (full, half)]
    assert number[1] == pytest.approx(2 * number[0], rel=0.01)
    assert electricity != half
    assert again == electricity


@pytest.mark.parametrize(("theme", "rules"), [("light", ()), ("dark", ("color-contrast",))])
def test_cost_energy_and_proof_are_accessible_and_fit_a_phone(
    browser: Browser, run: Any, theme: Any, rules: tuple[str, ...]
) -> None:
    addresses = (f"/runs/{run.pk}?tab=cost&basis=own&capex_usd=30000", f"/runs/{run.pk}?tab=energy", "/selfproof")

    def look(page: Page) -> list[Any]:
        troubles = []
        for number, address in enumerate(addresses):
            page.goto(address)
            if "runs" in address:
                page.wait_for_selector("body[data-drawn]")
            screenshot(page, f"accounts-{number}-{theme}")
            troubles += [(address, found) for found in (violations(page, *rules), sideways(page)) if found]
        return troubles

    assert browser.run(look, viewport={"width": 360, "height": 740}, color_scheme=theme) == []


def test_energy_draws_its_layers_and_other_places(browser: Browser, run: Any) -> None:
    def look(page: Page) -> int:
        page.goto(f"/runs/{run.pk}?tab=energy")
        page.wait_for_selector("body[data-drawn]")
        screenshot(page, "run-energy-desk")
        page.goto(f"/runs/{run.pk}?tab=cost&api=openai/gpt-4o")
        page.wait_for_selector("body[data-drawn]")
        screenshot(page, "run-cost-desk")
        page.goto("/selfproof")
        screenshot(page, "selfproof-desk")
        page.goto(f"/runs/{run.pk}?tab=energy")
        page.wait_for_selector("body[data-drawn]")
        drawn = "[...document.querySelectorAll('#tab [data-chart] .plot')].filter(p => p.data?.length).length"
        return int(page.evaluate(drawn))

    assert browser.run(look, viewport={"width": 1400, "height": 900}) == 4
