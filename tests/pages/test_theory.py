"""Pages of theory: every calculator with its twins, sliders that move plots, inputs in the URL."""

import csv
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from playwright.sync_api import Page

from observatory.catalog.models import Accelerator
from observatory.pages.theory import plot_titles
from observatory.theory.registry import CALCULATORS
from runners.engines.packaged import model_path
from tests.browser import Browser, log_in, screenshot, sideways, violations
from tests.factories import benchmark, seeded

NAMES = [calculator.name for calculator in CALCULATORS]


def test_the_index_lists_every_calculator(user_client: Client) -> None:
    page = user_client.get("/theory").content.decode()
    assert all(f'href="/theory/{name}"' in page for name in NAMES)
    assert [row["name"] for row in user_client.get("/theory.json").json()["rows"]] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_page_twins_and_plots_of(user_client: Client, name: str) -> None:
    calculator = next(item for item in CALCULATORS if item.name == name)
    page = user_client.get(f"/theory/{name}")
    assert page.status_code == 200
    assert all(f'name="{entry.name}"' in page.content.decode() for entry in calculator.entries)
    assert user_client.get(f"/theory/{name}.json").json() == calculator.answer({})
    lines = b"".join(user_client.get(f"/theory/{name}.csv").streaming_content).decode().splitlines()
    assert {row["name"] for row in csv.DictReader(lines)} >= {
        column.name for column in calculator.columns if not column.row
    }
    for index in range(len(plot_titles(name))):
        chart = user_client.get(f"/theory/{name}/chart/{index}.json").json()
        assert any(y is not None for trace in chart["figure"]["data"] for y in trace["y"]), index
        assert chart["rows"]


def test_the_page_shows_the_inputs_of_its_url(user_client: Client) -> None:
    page = user_client.get("/theory/speculative?acceptance=1&drafted=5").content.decode()
    assert 'value="1"' in page
    assert "manage.py calc speculative acceptance=1 drafted=5" in page


def test_a_bad_input_is_named_and_the_page_stays(user_client: Client) -> None:
    answer = user_client.get("/theory/speculative?acceptance=7")
    assert answer.status_code == 422
    assert "Give a number from 0 to 1." in answer.content.decode()
    assert 'value="7"' in answer.content.decode()
    twin = user_client.get("/theory/speculative.json?acceptance=7")
    assert (twin.status_code, twin.json()["faults"][0]["field"]) == (422, "acceptance")
    chart = user_client.get("/theory/speculative/chart/0.json?acceptance=7").json()
    assert (chart["figure"], "no result" in chart["note"]) == (None, True)


def test_what_was_written_into_the_url_is_no_markup(user_client: Client) -> None:
    page = user_client.get("/theory/speculative", {"acceptance": '"><script>alert(1)</script>', "<b>": "1"})
    assert b"<script>alert" not in page.content
    assert b"<b>" not in page.content


@pytest.mark.parametrize("path", ["/theory/nothing", "/theory/nothing.json", "/theory/speculative/chart/9.json"])
def test_what_is_not_there_is_not_found(user_client: Client, path: str) -> None:
    assert user_client.get(path).status_code == 404


def filled(client: Client, query: str) -> dict[str, str]:
    answer = client.get(f"/theory/decode-limit?{query}")
    assert answer.status_code == 302
    page = client.get(answer.url)
    assert page.status_code == 200
    return dict(parse_qsl(urlsplit(answer.url).query, keep_blank_values=True))


def test_an_accelerator_and_a_model_fill_in_what_they_know_and_leave_the_rest(user_client: Client) -> None:
    seeded()
    found = filled(user_client, "batch=7&accelerator=h100-sxm&model=llama-3.1-8b&deployment=")
    assert (found["batch"], found["bandwidth_gb_s"], found["memory_gb"]) == ("7", "3350", "80")
    assert (found["parameters_b"], found["layers"], found["kv_heads"]) == ("8.03", "32", "8")


def test_a_deployment_fills_in_its_accelerators_precision_and_model(user_client: Client) -> None:
    seeded()
    deployment = benchmark(model="meta-llama/Llama-3.1-8B-Instruct").deployment
    h100 = Accelerator.objects.get(slug="h100-sxm")
    deployment.pools.create(name="prefill", accelerator=Accelerator.objects.get(slug="l4"), count=1)
    deployment.pools.create(name="decode", accelerator=h100, count=4)
    deployment.replicas, deployment.precision = 2, "fp8"
    deployment.save()
    found = filled(user_client, f"deployment={deployment.pk}")
    assert (found["accelerators"], found["weight_bits"], found["parameters_b"]) == ("2", "8", "8.03")
    assert float(found["peak_tflops"]) == h100.fp8_dense_tflops
    assert "deployment" not in found
    assert f"?deployment={deployment.pk}" in user_client.get(f"/deployments/{deployment.pk}").content.decode()


@pytest.mark.parametrize("query", ["deployment=999", "deployment=x", "accelerator=none", "model=none", "model=x&zzz=1"])
def test_a_source_that_is_not_there_changes_nothing(user_client: Client, query: str) -> None:
    assert filled(user_client, query) == {}


def test_staff_upload_a_model_file_and_look_at_its_matrix(staff_client: Client, settings: Any, tmp_path: Path) -> None:
    settings.MODELS_DIR = tmp_path / "models"
    file = SimpleUploadedFile("mine.gguf", model_path().read_bytes()[:5_000_000])
    answer = staff_client.post("/theory/quantization/upload", {"upload": file})
    assert answer.url == "/theory/quantization?file=mine.gguf"
    assert 'value="mine.gguf"' in staff_client.get("/theory/quantization").content.decode()


@pytest.mark.parametrize(
    ("name", "words"), [("a.txt", "ends with .gguf"), ("a.gguf", "Fetch it again."), ("", "No file")]
)
def test_an_upload_that_is_no_model_file_is_refused_in_words(
    staff_client: Client, settings: Any, tmp_path: Path, name: str, words: str
) -> None:
    settings.MODELS_DIR = tmp_path
    sent = {"upload": SimpleUploadedFile(name, b"nonsense")} if name else {}
    answer = staff_client.post("/theory/quantization/upload", sent, follow=True)
    assert words in answer.content.decode()


def test_only_calculators_that_read_files_take_uploads(staff_client: Client) -> None:
    assert staff_client.post("/theory/moe/upload").status_code == 404


@pytest.mark.browser
@pytest.mark.parametrize(
    ("theme", "width", "names"),
    [("light", 1400, ("", *NAMES)), ("dark", 360, ("", "decode-limit", "quantization", "moe"))],
)
def test_pages_draw_their_plots_are_accessible_and_fit(
    browser: Browser, client: Client, user: User, theme: str, width: int, names: tuple[str, ...]
) -> None:
    log_in(browser, client, user)

    def visit(page: Page) -> dict[str, Any]:
        wrong = {}
        for name in names:
            page.goto(f"/theory/{name}".rstrip("/"))
            page.wait_for_selector("body[data-drawn]" if name else "body[data-ready]")
            screenshot(page, f"{name or 'index'}-{theme}-{width}")
            empty = page.locator("[data-chart] .plot:not(.js-plotly-plot)").count()
            found = (violations(page), sideways(page), empty)
            if found != ([], 0, 0):
                wrong[name] = found
        return wrong

    assert browser.run(visit, color_scheme=theme, viewport={"width": width, "height": 900}) == {}


@pytest.mark.browser
def test_a_slider_moves_its_number_the_results_the_plot_and_the_url(
    browser: Browser, client: Client, user: User
) -> None:
    log_in(browser, client, user)

    def move(page: Page) -> tuple[str, str, str, str]:
        page.goto("/theory/speculative")
        page.wait_for_selector("body[data-drawn]")
        page.locator('input[type=range][data-for="in-acceptance"]').fill("1000")
        page.wait_for_selector("#command:has-text('acceptance=1')")
        page.wait_for_selector(".legendtext:has-text('a = 1')")
        ended = page.locator("#twins a").first.get_attribute("href")
        page.locator("#in-acceptance").fill("2")
        page.wait_for_selector(".notice.error")
        return (
            page.locator("#in-acceptance").input_value(),
            str(ended),
            page.locator("#fault-acceptance").inner_text(),
            page.url,
        )

    value, twin, fault, url = browser.run(move)
    assert value == "2"
    assert "acceptance=1&" in twin
    assert "Give a number from 0 to 1." in fault
    assert "acceptance=2" in url
