"""The product as a whole: web, broker, workers, beat and a real engine, used through the browser and the API."""

import time
import urllib.request

import pytest

from tests.browser import Browser
from tests.services.misbehaving import Script, event_stream, hang_mid_stream, json_body, serving, silent

SMALL = {
    "workload": {"input_tokens": 40, "output_tokens": 16},
    "load": {"levels": [1, 2], "requests": 12},
}


def made(installation, deployment_id: int, name: str, **asked: object) -> int:
    benchmark = installation.api(
        "POST", "/benchmarks", {"name": name, "deployment_id": deployment_id, **SMALL, **asked}
    )
    return benchmark["id"]


@pytest.fixture(scope="module")
def schedule(installation):
    """Made first, so that its minute passes while other tests run."""
    benchmark = made(installation, installation.deployment["id"], "each minute")
    return installation.api("POST", "/schedules", {"benchmark_id": benchmark, "cron": "* * * * *"})


def test_a_run_started_by_rest_is_measured_and_every_form_of_it_can_be_read(installation, schedule):
    benchmark = made(installation, installation.deployment["id"], "by rest")
    started = installation.api("POST", "/runs", {"benchmark_id": benchmark})
    run = installation.ended(started["id"])
    assert (run["status"], run["valid"]) == ("finished", True), run["reason"]
    assert [(stage["planned"], stage["ok"]) for stage in run["stages"]] == [(12, 12), (12, 12)]
    numbers = installation.api("GET", f"/runs/{run['id']}/measurements?metric=ttft_ms&statistic=p50")["items"]
    assert [number["n"] for number in numbers] == [12, 12]
    rows = installation.api("GET", f"/runs/{run['id']}/requests")
    assert rows["count"] == 24
    assert installation.api("GET", f"/runs/{run['id']}.csv").splitlines()[0].startswith("run")
    assert run["summary"]["stages"][0]["metrics"]["wh_per_query"]["mark"] == "modelled"


def log_in(page, installation) -> None:
    page.goto("/login")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", installation.password)
    page.click("main button[type=submit], form button[type=submit]")
    page.wait_for_url("**/*")


def run_number(page) -> int:
    return int(page.url.rstrip("/").rsplit("/", 1)[1])


def test_a_browser_walks_from_the_first_run_guide_to_a_compared_pair(installation, chromium):
    pool, opened = chromium
    browser = Browser(pool, opened, installation.address)
    deployment = installation.deployment  # its quick look is known, so that the guide takes that one: of seconds
    brief = {"levels": [1, 4], "duration_s": 6, "warmup_s": 1}
    known = made(installation, deployment["id"], f"Quick look: {deployment['name']}"[:100], load=brief)

    def first_run(page) -> int:
        log_in(page, installation)
        page.goto("/welcome")
        page.fill("input[name=url]", installation.endpoint["url"])
        page.click("text=Ask it")
        page.wait_for_selector("text=llama.cpp")
        page.click("button:has-text('Start')")
        page.wait_for_url("**/runs/*")
        page.wait_for_selector("text=Measuring.", timeout=60_000)
        return run_number(page)

    def second_run(page) -> int:
        log_in(page, installation)
        page.goto(f"/runs/{first}")
        page.click("text=Run again")
        page.wait_for_url(lambda url: "/runs/" in url and not url.endswith(f"/{first}"))
        return run_number(page)

    def compared(page) -> str:
        log_in(page, installation)
        page.goto("/runs")
        for number in (first, second):
            page.check(f"input[name=run][value='{number}']")
        page.click("button:has-text('Compare')")
        page.wait_for_url("**/compare*")
        page.wait_for_selector("[data-drawn]")
        return page.inner_text("main")

    first = browser.run(first_run)
    ended = installation.ended(first)
    assert (ended["valid"], ended["benchmark_id"]) == (True, known)
    second = browser.run(second_run)
    assert installation.ended(second)["valid"] is True
    words = browser.run(compared)
    assert "TTFT p50" in words
    assert "no clear difference" in words


MALFORMED = event_stream(b"data: {not json}\n\n")
CASES: dict[str, tuple[Script, str, str]] = {
    "web-site": (json_body(b"<html>hi</html>", "200 OK", "text/html"), "bad_content_type", "Is the URL right?"),
    "unauthorised": (json_body({"error": {"message": "no"}}, "401 Unauthorized"), "auth_error", "API key"),
    "no-model": (json_body({"error": {"message": "no such model"}}, "404 Not Found"), "http_error", "no such model"),
    "too-many": (json_body({"error": {"message": "slow down"}}, "429 Too Many"), "http_error", "slow down"),
    "broken": (json_body(b"oops", "500 Internal Server Error", "text/plain"), "http_error", "500"),
    "malformed": (MALFORMED, "parse_error", "not JSON"),
    "empty": (event_stream(b"data: [DONE]\n\n"), "empty", "no token"),
}


def deployed(installation, name: str, url: str, model: str) -> int:
    endpoint = installation.api("POST", "/endpoints", {"name": name, "url": url, "model": model})
    return installation.api("POST", "/deployments", {"name": name, "endpoint_id": endpoint["id"]})["id"]


def test_an_endpoint_that_cannot_be_measured_is_told_on_page_and_api_with_what_to_do(installation, chromium):
    pool, opened = chromium
    browser = Browser(pool, opened, installation.address)
    with serving({name: script for name, (script, *_) in CASES.items()}) as server:
        runs = {}
        for name in CASES:
            benchmark = made(installation, deployed(installation, name, server.url, name), name)
            runs[name] = installation.api("POST", "/runs", {"benchmark_id": benchmark})["id"]
        for name, (_, code, words) in CASES.items():
            run = installation.ended(runs[name])
            assert run["status"] == "failed"
            assert run["reason_code"] == code, run["reason"]
            assert words in run["reason"]

    def pages(page) -> dict[str, str]:
        log_in(page, installation)
        found = {}
        for name, number in runs.items():
            page.goto(f"/runs/{number}")
            found[name] = page.inner_text("main")
        return found

    for name, text in browser.run(pages).items():
        assert CASES[name][2] in text


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("ftp://example.com", "http://"),
        ("http://169.254.169.254", "never contacted"),
        ("http://key:secret@example.com", "user name and password"),
    ],
)
def test_a_wrong_address_is_refused_by_api_and_guide_with_the_fix(installation, chromium, url, words):
    refused = installation.api("POST", "/endpoints", {"name": "wrong", "url": url, "model": "m"})
    assert refused["http"] == 422
    assert words in str(refused)
    assert "secret" not in str(refused)
    pool, opened = chromium

    def guide(page) -> str:
        log_in(page, installation)
        page.goto("/welcome")
        page.fill("input[name=url]", url)
        page.click("text=Ask it")
        page.get_by_text(words).first.wait_for(timeout=20_000)
        return page.inner_text("main")

    assert words in Browser(pool, opened, installation.address).run(guide)


def test_the_guide_says_at_once_that_nothing_listens(installation, chromium):
    pool, opened = chromium

    def guide(page) -> str:
        log_in(page, installation)
        page.goto("/welcome")
        page.fill("input[name=url]", "http://127.0.0.1:9")
        page.click("text=Ask it")
        page.wait_for_selector("text=Start the server")
        return page.inner_text("main")

    assert "Nothing listens" in Browser(pool, opened, installation.address).run(guide)


@pytest.mark.parametrize(("script", "code"), [(silent, "timeout_first_byte"), (hang_mid_stream, "timeout_idle")])
def test_a_server_that_hangs_is_told_by_the_probe_within_its_bound(installation, script, code):
    from runners.probe import probe
    from runners.spec import Target

    def hangs(wire) -> None:
        script(wire)
        time.sleep(3)

    with serving({"m": hangs}) as server:
        began = time.monotonic()
        found = probe(Target(server.url), timeout_s=0.4)
        assert time.monotonic() - began < 10
    assert (found["usable"], found["code"]) == (False, code)
    assert found["text"]


def test_a_schedule_starts_its_run_by_beat_and_worker(installation, schedule):
    deadline = time.monotonic() + 100
    started = []
    while time.monotonic() < deadline and not started:
        found = installation.api("GET", f"/schedules/{schedule['id']}/occurrences")["items"]
        started = [item for item in found if item["outcome"] == "started"]
        time.sleep(1)
    installation.api("PATCH", f"/schedules/{schedule['id']}", {"enabled": False})
    assert started
    run = installation.ended(started[-1]["run_id"])
    assert (run["trigger"], run["status"], run["valid"]) == ("schedule", "finished", True), run["reason"]


def test_it_is_healthy_and_shows_nothing_without_a_login(installation):
    assert urllib.request.urlopen(f"{installation.address}/healthz", timeout=10).status == 200
    with urllib.request.urlopen(f"{installation.address}/runs", timeout=10) as answer:
        assert "/login" in answer.url
