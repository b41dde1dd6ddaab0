"""A real Chromium for tests. Playwright's synchronous interface refuses a thread that Django uses, so that all of it
runs in one thread of its own: a test hands a function to ``browser.run(lambda page: ...)``.

Every page is watched: a content-security violation, a console error, a failed script or a request to another host
fails the test.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser as Chromium
from playwright.sync_api import Page, sync_playwright

Result = TypeVar("Result")
WAIT_S = 120


@dataclass
class Browser:
    """``run`` opens a fresh page (logged in when ``session`` is given) and hands it to a function."""

    pool: ThreadPoolExecutor
    chromium: Chromium
    address: str = ""
    cookies: list[dict[str, Any]] = field(default_factory=list)

    def run(self, work: Callable[[Page], Result], **context: Any) -> Result:
        """``context``: options of Playwright's new_context, such as viewport and color_scheme."""
        return self.pool.submit(self._run, work, context).result(WAIT_S)

    def _run(self, work: Callable[[Page], Result], context: dict[str, Any]) -> Result:
        opened = self.chromium.new_context(base_url=self.address, **context)
        opened.set_default_timeout(15_000)
        troubles: list[str] = []
        try:
            if self.cookies:
                opened.add_cookies(self.cookies)  # type: ignore[arg-type]
            page = opened.new_page()
            _watch(page, troubles, urlsplit(self.address).netloc)
            result = work(page)
            page.wait_for_load_state("networkidle")  # a request that outlives its test would meet the next one's data
        finally:
            opened.close()
        assert troubles == [], troubles
        return result


def _watch(page: Page, troubles: list[str], host: str) -> None:
    def on_request(request: Any) -> None:
        parts = urlsplit(request.url)
        if parts.scheme in ("http", "https", "ws", "wss") and parts.netloc != host:
            troubles.append(f"request to another host: {request.url}")

    def on_console(message: Any) -> None:
        if message.type == "error":
            troubles.append(f"console: {message.text}")

    page.on("request", on_request)
    page.on("console", on_console)
    page.on("pageerror", lambda error: troubles.append(f"script: {error}"))


def violations(page: Page, *only: str) -> list[str]:
    """What axe objects to on the page as it stands, the insides of plots apart: thousands of nodes without a role.
    ``only``: the rules to look at, such as "color-contrast", all that a second theme can break.
    """
    options = {"resultTypes": ["violations"], **({"runOnly": only} if only else {})}
    found = Axe().run(page, context={"exclude": [[".main-svg"]]}, options=options).response
    return [f"{item['id']}: {node['html']}" for item in found["violations"] for node in item["nodes"]]


def sideways(page: Page) -> int:
    """Pixels by which the page is wider than its window: 0 on a page without horizontal scroll."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def log_in(browser: Browser, client: Any, user: Any) -> None:
    """Pages that ``browser`` opens from now on belong to ``user``."""
    client.force_login(user)
    value = client.cookies["sessionid"].value
    browser.cookies = [{"name": "sessionid", "value": value, "url": browser.address}]


@pytest.fixture(scope="session")
def chromium() -> Iterator[tuple[ThreadPoolExecutor, Chromium]]:
    path = shutil.which("chromium")
    if path is None:
        if os.environ.get("REQUIRE_ALL") == "1":
            pytest.fail("chromium is missing: apt install chromium")
        pytest.skip("chromium is missing: apt install chromium")
    with ThreadPoolExecutor(1) as pool:
        playwright = pool.submit(lambda: sync_playwright().start()).result(WAIT_S)
        opened = pool.submit(lambda: playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])).result(
            WAIT_S
        )
        yield pool, opened
        pool.submit(opened.close).result(WAIT_S)
        pool.submit(playwright.stop).result(WAIT_S)


@pytest.fixture
def browser(chromium: tuple[ThreadPoolExecutor, Chromium], live_server: Any) -> Browser:
    """A browser against Django's live server."""
    pool, opened = chromium
    return Browser(pool, opened, live_server.url)


def screenshot(page: Page, name: str) -> None:
    """Keeps a picture in the folder named by SHOTS, for people to look at; does nothing without it."""
    folder = os.environ.get("SHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
