import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from observatory.benchmarks.models import Benchmark
from observatory.pages.estimates import ASSUMED, Pace, estimate, pace_of
from observatory.runs.models import Run
from runners.metrics import Mark
from runners.spec import Account, Arrivals, Load, Power, RunSpec, Target, Workload
from tests import factories
from tests.browser import Browser, log_in
from tests.questions import ask
from tests.simulation import Plan


def form(benchmark: Benchmark, **changes: object) -> dict[str, object]:
    return {
        "name": "night",
        "deployment": benchmark.deployment_id,
        "arrivals": "closed",
        "levels": "1, 4, 16",
        "duration_s": "20",
        "requests": "",
        "warmup_s": "0",
        "input_tokens": "128",
        "output_tokens": "64",
        "seed": "0",
        "power_source": "auto",
        **changes,
    }


def test_the_defaults_of_a_new_benchmark_can_be_saved_as_they_are(user_client: Client) -> None:
    known = factories.benchmark()
    page = user_client.get(f"/benchmarks/new?deployment={known.deployment_id}").content.decode()
    for shown in ('value="1, 4, 16"', 'value="60"', 'value="128"', f'<option value="{known.deployment_id}" selected>'):
        assert shown in page
    answer = user_client.post("/benchmarks/new", form(known))
    made = Benchmark.objects.get(name="night")
    assert answer.url == f"/benchmarks/{made.pk}"
    asked = made.asked_load
    assert (asked.levels, asked.duration_s, made.created_by.username) == ((1, 4, 16), 20, "ada")
    assert made.asked_workload == Workload(128, 64)


@pytest.mark.parametrize(
    ("change", "fix"),
    [
        ({"levels": "1, two"}, "Give numbers between commas"),
        ({"levels": "1, inf"}, "Give numbers between commas"),
        ({"levels": "1.5"}, "Concurrency is a whole number"),
        ({"levels": "0"}, "each above 0"),
        ({"levels": " ".join("1" * 101)}, "At most 100"),
        ({"duration_s": ""}, "Say when a stage ends"),
        ({"duration_s": "1e9"}, "at most 86400"),
        ({"output_tokens": "0"}, "Between 1 and 1000000"),
        ({"slo_ttft_ms": "-5"}, "Above 0 milliseconds"),
        ({"warmup_s": "5000"}, "Between 0 and 3600 seconds"),
        ({"load_hosts": "0"}, "greater than or equal to 1"),
        ({"arrivals": "burst"}, "not one of the available choices"),
        ({"name": "demo known"}, "already exists"),
    ],
)
def test_what_cannot_be_run_is_refused_with_the_fix(user_client: Client, change: dict[str, str], fix: str) -> None:
    known = factories.benchmark(name="demo known")
    page = user_client.post("/benchmarks/new", form(known, **change)).content.decode()
    assert fix in page
    assert Benchmark.objects.count() == 1


def test_several_load_hosts_are_asked_for_in_the_form_and_reach_the_run(user_client: Client) -> None:
    user_client.post("/benchmarks/new", form(factories.benchmark(), load_hosts="2", start="yes"))
    run = Run.objects.get()
    assert (run.load_hosts, run.spec["shard"]) == (2, {"count": 2, "index": None})
    assert "Load hosts" in user_client.get(run.benchmark.get_absolute_url()).content.decode()


def test_a_benchmark_that_is_saved_and_started_leads_to_its_run(user_client: Client) -> None:
    answer = user_client.post("/benchmarks/new", form(factories.benchmark(), start="yes"), follow=True)
    run = Run.objects.get()
    assert answer.redirect_chain[0][0] == f"/runs/{run.pk}"
    assert (run.trigger, run.started_by.username, run.status) == ("page", "ada", "queued")


def test_a_broker_that_is_away_is_told_and_the_run_is_kept(user_client: Client) -> None:
    benchmark = factories.benchmark()
    page = user_client.post(f"/benchmarks/{benchmark.pk}/start", follow=True).content.decode()
    assert "starts by itself when the broker is back" in page
    assert Run.objects.get().status == "queued"


def test_a_benchmark_that_cannot_be_run_any_more_says_why_and_starts_nothing(user_client: Client) -> None:
    benchmark = factories.benchmark()
    Benchmark.objects.update(load={"levels": []})
    page = user_client.post(f"/benchmarks/{benchmark.pk}/start", follow=True).content.decode()
    assert "Not started. load.levels: give at least one level" in page
    assert "It cannot be run as it stands" in page
    assert not Run.objects.exists()


def test_a_copy_begins_with_everything_but_the_name(user_client: Client) -> None:
    known = factories.benchmark(name="day", plan=Plan(levels=(3, 5)))
    page = user_client.get(f"/benchmarks/new?copy={known.pk}").content.decode()
    assert 'value="day (copy)"' in page
    assert 'value="3, 5"' in page


def test_the_preview_tells_what_is_missing(user_client: Client) -> None:
    known = factories.benchmark()
    page = user_client.get("/benchmarks/preview", form(known, duration_s="")).content.decode()
    assert "An estimate comes when the form is complete" in page
    assert "Requests per stage: Say when a stage ends" in page


def spec(**changes: object) -> RunSpec:
    load = Load(**{"levels": (1.0, 4.0), "duration_s": 20.0, **changes})  # type: ignore[arg-type]
    return RunSpec(
        Target("http://gpu-1:8000"),
        Workload(input_tokens=100, output_tokens=11),
        load,
        power=Power(idle_s=3.0),
        account=Account(usd_per_hour=3.6),
    )


#: Before the load, to come to rest, and after it.
IDLE_S = 3 + 2 + 3
PACE = Pace(((1.0, 100.0, 10.0), (4.0, 200.0, 20.0)), "known", Mark.MODELLED)


def test_an_estimate_by_time_counts_what_fits_into_it() -> None:
    found = estimate(spec(), PACE)
    assert found.requests == 100 + 200
    assert found.seconds == pytest.approx(IDLE_S + (20 + 0.2) + (20 + 0.4))
    assert (found.input_tokens, found.output_tokens) == (30_000, 3_300)
    assert found.usd == pytest.approx(found.seconds * 0.001)


def test_an_estimate_by_requests_counts_the_rounds_that_they_take() -> None:
    found = estimate(spec(levels=(4.0,), duration_s=None, requests=10), PACE)
    assert found.requests == 10
    assert found.seconds == pytest.approx(IDLE_S + 3 * 0.4 + 0.4)


def test_an_estimate_by_rate_takes_as_long_as_the_requests_arrive() -> None:
    found = estimate(spec(levels=(5.0,), duration_s=None, requests=50, arrivals=Arrivals.POISSON, warmup_s=2.0), PACE)
    assert found.requests == 50 + 10
    assert found.seconds == pytest.approx(IDLE_S + 2 + 10 + 0.4)


@pytest.mark.django_db
def test_the_pace_comes_from_the_last_valid_run_and_is_assumed_without_one() -> None:
    benchmark = factories.benchmark()
    assert pace_of(benchmark.deployment) is ASSUMED
    run = factories.finished_run(benchmark, Plan(levels=(1, 4)))
    factories.invalid_run(benchmark)
    pace = pace_of(benchmark.deployment)
    assert [level for level, _, _ in pace.stages] == [1, 4]
    assert (pace.mark, pace.source) == ("modelled", f"from run {run.pk} of the same deployment")
    other = Benchmark.objects.create(
        name="later", deployment=benchmark.deployment, workload={"input_tokens": 8}, load={"requests": 9}
    )
    factories.finished_run(other)
    assert pace_of(benchmark.deployment, benchmark).source == f"from run {run.pk} of the same benchmark"


@pytest.mark.browser
def test_the_estimate_follows_the_form(browser: Browser, client: Client, user: User) -> None:
    benchmark = factories.benchmark()
    log_in(browser, client, user)

    def change(page: Page) -> tuple[str, str]:
        page.goto(f"/benchmarks/{benchmark.pk}/edit")
        before = page.wait_for_selector("#estimate dl")
        text = before.inner_text() if before else ""
        page.fill("#id_output_tokens", "3200")
        page.wait_for_selector("#estimate:has-text('1\u2009540\u2009000')")
        return text, page.inner_text("#estimate")

    before, after = browser.run(change)
    assert "15\u2009400" in before
    assert "assumed" in after


def test_a_rate_too_low_to_count_is_answered_in_words(user_client: Client) -> None:
    known = factories.benchmark()
    asked = form(known, levels="1e-320", arrivals="poisson", duration_s="", requests="1000000")
    assert "load.levels" in user_client.get("/benchmarks/preview", asked).content.decode()
    kept = factories.benchmark()
    ask(kept, levels=[1e-320], arrivals="poisson", requests=1_000_000)
    assert "load.levels" in user_client.get(f"/benchmarks/{kept.pk}").content.decode()
