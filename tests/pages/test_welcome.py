from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs.models import Run
from tests import factories
from tests.browser import Browser, log_in, violations
from tests.services.misbehaving import Server

ROOT = Path(__file__).resolve().parents[2]


def ask(client: Client, url: str, **more: str) -> str:
    return client.post("/welcome/probe", {"url": url, "dialect": "openai-chat", **more}).content.decode()


def test_the_overview_leads_to_the_guide_while_there_is_no_run(user_client: Client) -> None:
    assert user_client.get("/").url == "/welcome"


def test_what_cannot_be_measured_is_told_and_not_kept(staff_client: Client, server: Server) -> None:
    assert "Start the server, or correct the port" in ask(staff_client, "http://127.0.0.1:9")
    assert "Start the URL with http:// or https://" in ask(staff_client, "gpu-1:8000")
    assert not Endpoint.objects.exists()


def test_asking_twice_gives_one_endpoint_and_a_new_key_replaces_the_old(staff_client: Client, server: Server) -> None:
    ask(staff_client, server.url, api_key="first-key-1234")
    ask(staff_client, f"{server.url}/")
    assert Endpoint.objects.get().api_key == "first-key-1234"
    ask(staff_client, server.url, api_key="second-key-1234")
    assert Endpoint.objects.get().api_key == "second-key-1234"


def test_starting_twice_gives_two_runs_of_one_benchmark(staff_client: Client, server: Server) -> None:
    ask(staff_client, server.url)
    endpoint = Endpoint.objects.get()
    for _ in range(2):
        answer = staff_client.post(f"/welcome/start/{endpoint.pk}", {"model": "m", "plan": "quick"})
        assert answer.url == Run.objects.first().get_absolute_url()
    assert (Deployment.objects.count(), Benchmark.objects.count(), Run.objects.count()) == (1, 1, 2)
    assert Run.objects.first().spec["target"]["model"] == "m"


def test_another_model_of_a_measured_server_gets_an_endpoint_of_its_own(staff_client: Client, server: Server) -> None:
    ask(staff_client, server.url)
    first = Endpoint.objects.get()
    staff_client.post(f"/welcome/start/{first.pk}", {"model": "m"})
    staff_client.post(f"/welcome/start/{first.pk}", {"model": "other"})
    assert sorted(Endpoint.objects.values_list("model", flat=True)) == ["m", "other"]
    assert sorted(Run.objects.values_list("spec__target__model", flat=True)) == ["m", "other"]


def test_users_without_the_staff_right_are_told_whom_to_ask(user_client: Client) -> None:
    assert "Ask someone with the staff right" in user_client.get("/welcome").content.decode()


@pytest.mark.browser
def test_three_steps_lead_from_an_address_to_a_run(
    browser: Browser, client: Client, staff: User, server: Server
) -> None:
    log_in(browser, client, staff)

    def walk(page: Page) -> tuple[list[str], str]:
        page.goto("/")
        page.wait_for_selector("body[data-ready]")
        page.fill("#id_url", "http://127.0.0.1:9")
        page.click("text=Ask it")
        page.wait_for_selector("text=This cannot be measured")
        page.fill("#id_url", server.url)
        page.click("text=Ask it")
        page.wait_for_selector("text=Quick look")
        page.wait_for_url("**/welcome?endpoint=*")
        assert page.evaluate("document.querySelectorAll('style, [style]').length") == 0
        wrong = violations(page)
        page.click("button:has-text('Start')")
        page.wait_for_url("**/runs/*")
        return wrong, page.url

    wrong, url = browser.run(walk)
    assert wrong == []
    assert url.endswith(f"/runs/{Run.objects.get().pk}")


def test_a_quick_look_does_not_guess_the_hardware(staff_client: Client, server: Server) -> None:
    ask(staff_client, server.url)
    staff_client.post(f"/welcome/start/{Endpoint.objects.get().pk}", {"model": "m"})
    assert Run.objects.get().setup["hardware"] == "hardware not stated"
    assert "hardware not stated" in staff_client.get(Deployment.objects.get().get_absolute_url()).content.decode()


@pytest.mark.parametrize("path", ["/overview", "/endpoints", "/benchmarks"])
def test_another_endpoint_can_be_measured_from_where_one_looks_for_it(user_client: Client, path: str) -> None:
    factories.finished_run()
    html = user_client.get(path.replace("/overview", "/")).content.decode()
    assert html.count('href="/welcome">Measure another endpoint</a>') == 2  # beside the heading and in the menu


def test_htmx_adds_no_styles_wherever_it_is_loaded(user_client: Client) -> None:
    """The content security policy forbids inline styles, and says so in the console."""
    html = user_client.get("/welcome").content.decode()
    assert "htmx-2.min.js" in html
    assert '"includeIndicatorStyles":false' in html
    loading = [path for path in (ROOT / "templates").rglob("*.html") if "htmx-2" in path.read_text()]
    assert [path.name for path in loading] == ["base.html"]
