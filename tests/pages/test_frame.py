import re

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from observatory.catalog.models import Deployment, Endpoint
from tests import factories
from tests.browser import Browser, log_in, sideways, violations


@pytest.fixture
def password(user: User) -> str:
    """The user's."""
    user.set_password("a long pass phrase")
    user.save()
    return "a long pass phrase"


def test_someone_without_a_login_is_sent_to_the_login_page_and_back(client: Client, password: str) -> None:
    answer = client.get("/runs?status=finished")
    assert answer.url == "/login?next=/runs%3Fstatus%3Dfinished"
    answer = client.post(answer.url, {"username": "ada", "password": password, "next": "/runs"})
    assert answer.url == "/runs"


def test_a_wrong_password_says_so(client: Client, password: str) -> None:
    answer = client.post("/login", {"username": "ada", "password": f"{password}!"})
    assert "correct username and password" in answer.content.decode()


def test_logging_out_needs_a_post(user_client: Client) -> None:
    assert user_client.get("/logout").status_code == 405
    assert user_client.post("/logout").url == "/login"
    assert user_client.get("/runs").status_code == 302


@pytest.mark.parametrize(("cookie", "shown"), [("dark", "dark"), ("light", "light"), ('"><script>', "")])
def test_the_chosen_theme_comes_with_the_page(user_client: Client, cookie: str, shown: str) -> None:
    user_client.cookies["theme"] = cookie
    assert f'<html lang="en" data-theme="{shown}">' in user_client.get("/runs").content.decode()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_login_page_is_accessible_and_fits_a_phone(browser: Browser, theme: str) -> None:
    def look(page):
        page.goto(reverse("login"))
        page.wait_for_selector("body[data-ready]")
        return violations(page), sideways(page)

    assert browser.run(look, color_scheme=theme, viewport={"width": 360, "height": 740}) == ([], 0)


@pytest.mark.browser
def test_the_theme_switch_is_kept(browser: Browser, client: Client, user: User) -> None:
    log_in(browser, client, user)

    def switch(page):
        page.goto("/runs")
        page.wait_for_selector("body[data-ready]")
        page.click("[data-theme-switch]")
        page.click("[data-theme-switch]")
        page.reload()
        return page.get_attribute("html", "data-theme")

    assert browser.run(switch) == "dark"


@pytest.mark.browser
def test_keys_lead_to_pages_and_the_search(browser: Browser, client: Client, user: User) -> None:
    log_in(browser, client, user)

    def press(page):
        page.goto(reverse("endpoints"))
        page.wait_for_selector("body[data-ready]")
        page.keyboard.press("g")
        page.keyboard.press("r")
        page.wait_for_url("**/runs")
        page.wait_for_selector("body[data-ready]")
        page.keyboard.press("/")
        return page.evaluate("document.activeElement.name")

    assert browser.run(press) == "q"


TURNED = "chat \u202eknil"


@pytest.mark.parametrize("address", ["/", "/runs", "/endpoints", "/deployments", "/benchmarks", "own"])
def test_a_name_that_turns_the_order_of_letters_is_kept_to_itself(user_client: Client, address: str) -> None:
    benchmark = factories.benchmark(name=TURNED)
    Deployment.objects.filter(pk=benchmark.deployment_id).update(name=TURNED)
    Endpoint.objects.filter(pk=benchmark.deployment.endpoint_id).update(name=TURNED)
    factories.finished_run(benchmark)
    factories.queued_run(benchmark)
    html = user_client.get(benchmark.get_absolute_url() if address == "own" else address).content.decode()
    title, body = html.split("</title>")
    assert "\u202e" not in title
    inside = re.findall(r"<bdi[^>]*>.*?</bdi>", body, re.S)
    assert sum(part.count("\u202e") for part in inside) == len(re.findall("\u202e", body)) >= 1
