"""The form speaks the whole specification, and loses nothing of it."""

from dataclasses import fields
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from playwright.sync_api import Page

from observatory.benchmarks import files
from observatory.benchmarks.models import Benchmark
from observatory.pages.benchmark_form import BenchmarkForm
from observatory.pages.benchmark_values import LOAD, SEARCH, SOURCES, WORKLOAD
from observatory.pages.estimates import ASSUMED, estimate
from runners.loads import Arrivals, Goal, Search
from runners.power.idle import idle_seconds
from runners.sources import Agents, Conversations, Length, Prefixes, PromptFile, Shape, ShareGpt, Synthetic, Trace
from runners.spec import Images, Load, ModelShare, RunSpec, Slo, Target, Workload
from tests import factories
from tests.browser import Browser, log_in
from tests.pages.test_benchmarks import form
from tests.questions import ask

TRACE = b'{"timestamp": 0, "input_length": 60, "output_length": 3}'
UPLOADS = {
    "p.jsonl": ("prompts", b'"Say one."\n'),
    "c.json": ("chats", b'[{"conversations": [{"from": "human", "value": "Hi?"}]}]'),
    "t.jsonl": ("mooncake", TRACE),
    "l.txt": ("lengths", b"30\n50\n"),
}


@pytest.fixture
def uploads(user: User, settings: Any, tmp_path: Any) -> None:
    settings.MEDIA_ROOT = tmp_path
    for name, (kind, data) in UPLOADS.items():
        files.keep(SimpleUploadedFile(name, data), "", kind, user)


def test_every_field_of_workload_and_load_has_a_field_of_the_form() -> None:
    of_form = {
        Workload: {path.partition(".")[0] for path in WORKLOAD.values()} | {"source"},
        Images: {path.removeprefix("images.") for path in WORKLOAD.values() if "." in path},
        Load: set(LOAD.values()) | {"search"},
        Search: set(SEARCH.values()),
        Trace: {*SOURCES["trace"].values(), "form", "kind"},  # the form of a trace is that of its file
    }
    kinds = (Synthetic, Prefixes, Conversations, Agents, PromptFile, ShareGpt)
    named = ("synthetic", "prefixes", "conversations", "agents", "prompts", "sharegpt")
    of_form |= {kind: {*SOURCES[name].values(), "kind"} for kind, name in zip(kinds, named, strict=True)}
    for kind, names in of_form.items():
        assert {field.name for field in fields(kind)} == names, kind
    shown = [name for _, plain, more in BenchmarkForm.groups for name in (*plain, *more)]
    assert sorted(shown) == sorted(BenchmarkForm.base_fields)


def values_on(page: Any) -> dict[str, Any]:
    """What a browser would send back unchanged."""
    form = page.context["form"]
    found = {name: form[name].value() for name in form.fields}
    return {name: value for name, value in found.items() if value is not None and value is not False} | {"start": ""}


@pytest.mark.parametrize(
    ("workload", "load"),
    [
        (
            Workload(
                Length(Shape.LOGNORMAL, 512.5, 256, high=4096),
                Length(Shape.FILE, file="l.txt"),
                seed=7,
                ignore_eos=False,
                temperature=0.7,
                stream=False,
                choices=3,
                images=Images(2, 64, 32),
                models=(ModelShare("org/base", 3), ModelShare("a, b=c", 0.1 + 0.2)),
            ),
            Load(
                Arrivals.GAMMA,
                (0.1 + 0.2, 1234.0625),
                10,
                60.5,
                5,
                2,
                cv=2,
                max_in_flight=9,
                drain_s=5,
                calibrate_s=0,
                run_s=600.5,
            ),
        ),
        (Workload(source=Prefixes(4, 100, 0.5), input_sweep=(128, 1024)), Load((Arrivals.CLOSED), (4,), 9, repeats=3)),
        (
            Workload(source=Conversations(Length(Shape.UNIFORM, low=2, high=4), 2, 1, 3, 20, "c.json")),
            Load(levels=(4.0,), duration_s=20, ramp_from=1),
        ),
        (Workload(source=Agents(3, 64, 0.25, 0)), Load(requests=60, search=Search(Goal.SLO, 0.9, 0.2, 9))),
        (Workload(source=PromptFile("p.jsonl")), Load(levels=(1, 8), requests=60, search=Search(Goal.SATURATION))),
        (Workload(source=ShareGpt("c.json")), Load(requests=1)),
        (Workload(source=Trace("t.jsonl", "mooncake", 16)), Load(Arrivals.REPLAY, (1, 2.5))),
    ],
)
def test_a_benchmark_that_is_edited_and_saved_unchanged_asks_the_same(
    user_client: Client, uploads: None, workload: Workload, load: Load
) -> None:
    kept = factories.benchmark()
    plain = RunSpec(Target("http://h"), workload, load, slo=Slo(ttft_ms=500)).to_json()
    ask(kept, workload=plain["workload"], load=plain["load"], slo_ttft_ms=500)
    address = f"/benchmarks/{kept.pk}/edit"
    answer = user_client.post(address, values_on(user_client.get(address)))
    assert answer.status_code == 302, answer.context["form"].errors
    kept.refresh_from_db()
    assert (kept.asked_workload, kept.asked_load) == (workload, load)
    assert user_client.get(kept.get_absolute_url()).status_code == 200


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"input_tokens": "many"}, "input_tokens", "neither a whole number nor one of"),
        ({"input_tokens": "uniform:low=9"}, "input_tokens", "Uniform: give low and high"),
        ({"input_tokens": "file:/etc/passwd"}, "input_tokens", "There is no workload file"),
        ({"kind": "prompts"}, "source_file", "Give the path of a file"),
        ({"kind": "prompts", "source_file": "c.json"}, "source_file", "holds chats; prompts are needed"),
        ({"kind": "trace", "source_file": "c.json"}, "source_file", "holds chats; mooncake are needed"),
        ({"kind": "prefixes", "prefix_tokens": "500"}, "prefix_tokens", "below the input length"),
        ({"kind": "conversations", "turns": "0"}, "turns", "Between 1 and"),
        ({"kind": "agents", "tool_s": "-1"}, "tool_s", "Between 0 and"),
        ({"arrivals": "replay"}, "arrivals", "takes its times from a trace"),
        ({"arrivals": "gamma", "cv": "0"}, "cv", "Above 0"),
        ({"find": "slo", "levels": "1"}, "find", "which SLO is to be met"),
        ({"find": "saturation", "levels": "1", "max_stages": "1"}, "max_stages", "Between 2 and 100"),
        ({"run_s": "0"}, "run_s", "Above 0 and at most"),
        ({"repeats": "0"}, "repeats", "Between 1 and 30"),
        ({"ramp_from": "7"}, "ramp_from", "below every level"),
        ({"models": "a = heavy"}, "models", "a name and its weight"),
        ({"input_sweep": "1.5"}, "input_sweep", "Give whole numbers"),
        ({"input_sweep": "128", "levels": "1, 2"}, "input_sweep", "give one load"),
        ({"image_count": "65"}, "image_count", "Between 0 and 64"),
    ],
)
def test_a_complaint_stands_at_its_field_and_nothing_typed_is_lost(
    user_client: Client, uploads: None, change: dict[str, str], field: str, words: str
) -> None:
    sent = form(factories.benchmark(), **change)
    page = user_client.post("/benchmarks/new", sent)
    found = page.context["form"]
    assert words in str(found.errors.get(field)), found.errors
    assert {name: found[name].value() for name in change} == change
    assert Benchmark.objects.count() == 1


def test_what_was_typed_for_another_kind_is_left_alone(user_client: Client) -> None:
    sent = form(factories.benchmark(), turns="nonsense", cv="-3", max_stages="x", block_tokens="0")
    assert user_client.post("/benchmarks/new", sent).status_code == 302
    assert Benchmark.objects.get(name="night").asked_workload.source == Synthetic()


def test_what_the_dialect_has_no_words_for_is_refused_before_it_runs(user_client: Client) -> None:
    known = factories.benchmark()
    endpoint = known.deployment.endpoint
    endpoint.dialect = "ollama-chat"
    endpoint.save()
    page = user_client.post("/benchmarks/new", form(known, choices="2"))
    assert "one answer per request" in str(page.context["form"].errors["choices"])


def of(workload: Workload, load: Load) -> RunSpec:
    return RunSpec(Target("http://h"), workload, load, slo=Slo(ttft_ms=500))


def test_the_estimate_of_a_replay_takes_the_length_of_the_trace() -> None:
    facts = {"t": {"entries": 100, "span_s": 60, "mean_input_tokens": 50, "mean_output_tokens": 10}}
    found = estimate(of(Workload(source=Trace("t", "mooncake")), Load(Arrivals.REPLAY, (1, 2))), ASSUMED, facts)
    assert (found.requests, found.input_tokens, found.output_tokens) == (200, 10_000, 2_000)
    assert 90 <= found.seconds < 100


def test_the_estimate_says_what_it_cannot_know(user_client: Client) -> None:
    load = Load(duration_s=10, search=Search(Goal.SLO, max_stages=5))
    found = estimate(of(Workload(), load), ASSUMED)
    assert (found.requests, found.input_tokens, found.bound) == (None, None, True)
    assert found.seconds == pytest.approx(5 * (10 + 3.475) + 3 + 5)  # idle power before and after
    prompts = estimate(of(Workload(source=PromptFile("p")), Load(requests=10)), ASSUMED)
    assert (prompts.requests, prompts.input_tokens, prompts.output_tokens) == (10, None, 1280)
    sent = form(factories.benchmark(), kind="agents", levels="1")
    page = user_client.get("/benchmarks/preview", sent).content.decode()
    assert "Prompts grow from call to call" in page
    assert "not known beforehand" in page


def test_a_time_limit_bounds_the_estimate_but_not_the_idle_time_around_it() -> None:
    free = estimate(of(Workload(), Load(duration_s=100, levels=(1, 2))), ASSUMED)
    bound = estimate(of(Workload(), Load(duration_s=100, levels=(1, 2), run_s=50)), ASSUMED)
    assert free.seconds > 200
    assert bound.seconds == 50 + idle_seconds(of(Workload(), Load(requests=1)).power)


def test_repeats_and_sweeps_multiply_the_estimate() -> None:
    one = estimate(of(Workload(), Load(requests=10)), ASSUMED).requests
    swept = of(Workload(input_sweep=(64, 128)), Load(requests=10, repeats=3))
    assert estimate(swept, ASSUMED).requests == 6 * (one or 0)


@pytest.mark.browser
def test_the_form_shows_the_fields_of_what_is_chosen(browser: Browser, client: Client, user: User) -> None:
    factories.benchmark()
    log_in(browser, client, user)

    def change(page: Page) -> list[bool]:
        page.goto("/benchmarks/new")
        assert not page.is_visible("#id_repeats")
        page.wait_for_selector("body[data-ready]")
        seen = [page.is_visible("#id_turns"), page.is_visible("#id_input_tokens")]
        page.select_option("#id_kind", "conversations")
        seen += [page.is_visible("#id_turns"), page.is_visible("#id_cv")]
        page.select_option("#id_arrivals", "gamma")
        return [*seen, page.is_visible("#id_cv")]

    assert browser.run(change) == [False, True, True, False, True]


def test_without_a_script_all_fields_are_shown(user_client: Client) -> None:
    factories.benchmark()
    page = user_client.get("/benchmarks/new").content.decode()
    for name in BenchmarkForm.base_fields:
        assert f'name="{name}"' in page
    assert "hidden" not in page[page.index('id="benchmark"') :].replace('type="hidden"', "")
