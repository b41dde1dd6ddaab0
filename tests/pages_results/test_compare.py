import csv
import io

import pytest
from django.test import Client
from django.utils.html import strip_tags

from observatory.runs.models import Run
from tests import factories
from tests.simulation import Plan

pytestmark = pytest.mark.django_db


def page(client: Client, query: str) -> str:
    answer = client.get(f"/compare{query}")
    assert answer.status_code == 200
    return " ".join(strip_tags(answer.content.decode()).split())


@pytest.fixture
def pair() -> tuple[Run, Run]:
    """The second run's server takes 1.5 times as long to the first token."""
    of = factories.benchmark(plan=Plan(levels=(1, 2), requests=80, output_tokens=8))
    first = factories.finished_run(of, Plan(levels=(1, 2), requests=80, output_tokens=8))
    second = factories.finished_run(of, Plan(levels=(1, 2), requests=80, output_tokens=8, ttft_ms=90, seed=1))
    return first, second


def test_nothing_chosen_says_how_to_choose(user_client: Client) -> None:
    assert "Tick two to eight runs in the list of runs and press Compare" in page(user_client, "")


def test_one_run_alone_offers_its_own_stages(user_client: Client, pair: tuple[Run, Run]) -> None:
    run = pair[0]
    assert "stands alone" in page(user_client, f"?runs={run.pk}")
    html = user_client.get(f"/compare?runs={run.pk}").content.decode()
    assert f"?runs={run.pk},{run.pk}&amp;stage=0,1" in html


def test_stages_of_one_run_are_told_apart_by_their_load(user_client: Client, pair: tuple[Run, Run]) -> None:
    run = pair[0]
    found = page(user_client, f"?runs={run.pk},{run.pk}&stage=0,1")
    assert f"Compare run {run.pk} at concurrency 1, run {run.pk} at concurrency 2" in found
    assert "The loads differ: concurrency 1, concurrency 2." in found


def test_a_slower_run_is_called_worse_in_words(user_client: Client, pair: tuple[Run, Run]) -> None:
    found = page(user_client, f"?runs={pair[0].pk},{pair[1].pk}")
    assert f"Run {pair[0].pk}, baseline" in found
    assert "▼ worse:" in found
    assert "differences are judged here" in found


def test_runs_are_matched_at_the_highest_load_that_all_have(user_client: Client, pair: tuple[Run, Run]) -> None:
    other = factories.finished_run(plan=Plan(levels=(2, 4), requests=80, output_tokens=8))
    found = user_client.get(f"/compare.json?runs={pair[0].pk},{other.pk}").json()
    assert [stage["load"] for stage in found["stages"]] == ["concurrency 2", "concurrency 2"]


def test_runs_without_a_common_load_are_chosen_by_hand_and_it_is_said(user_client: Client) -> None:
    first = factories.finished_run(plan=Plan(levels=(1, 2), requests=50, output_tokens=4))
    second = factories.finished_run(plan=Plan(levels=(4, 8), requests=50, output_tokens=4))
    found = page(user_client, f"?runs={first.pk},{second.pk}")
    assert "The loads differ: concurrency 2, concurrency 8." in found
    html = user_client.get(f"/compare?runs={first.pk},{second.pk}&stage=0,0").content.decode()
    assert html.count("selected") == 2
    assert "concurrency 1, concurrency 4" in html


def test_a_refusal_gives_its_reason_once_at_the_head(user_client: Client, pair: tuple[Run, Run]) -> None:
    longer = factories.finished_run(plan=Plan(levels=(2,), requests=80, input_tokens=512, output_tokens=8))
    found = page(user_client, f"?runs={pair[0].pk},{longer.pk}")
    assert found.count("asked for 128 input tokens a request") == 1
    assert found.count("✕ cannot be compared") >= 10


def test_only_what_differs_in_the_setup_is_listed(user_client: Client, pair: tuple[Run, Run]) -> None:
    assert "Nothing: same deployment" in page(user_client, f"?runs={pair[0].pk},{pair[1].pk}")
    other = factories.finished_run(factories.benchmark("other-model"), Plan(levels=(2,), requests=80, output_tokens=8))
    found = page(user_client, f"?runs={pair[0].pk},{other.pk}")
    assert "deployment.endpoint.model smollm2-135m other-model" in found
    assert "workload.seed" not in found


def test_runs_that_cannot_be_compared_are_named_and_left_out(user_client: Client, pair: tuple[Run, Run]) -> None:
    queued = factories.queued_run()
    found = page(user_client, f"?runs={pair[0].pk},{pair[1].pk},{queued.pk},987654,x")
    assert f"Run {queued.pk} is queued and has no stage with numbers" in found
    assert "Run 987654 does not exist." in found
    assert "is not the number of a run" in found


def test_more_than_eight_are_cut_with_a_word(user_client: Client, pair: tuple[Run, Run]) -> None:
    many = ",".join([str(pair[0].pk)] * 9)
    assert "Only the first 8 of 9 runs are compared." in page(user_client, f"?runs={many}")


def test_the_list_of_runs_sends_each_run_by_itself(user_client: Client, pair: tuple[Run, Run]) -> None:
    found = page(user_client, f"?run={pair[0].pk}&run={pair[1].pk}")
    assert f"Compare run {pair[0].pk}, run {pair[1].pk}" in found


def test_adding_a_run_leads_to_the_address_of_all(user_client: Client, pair: tuple[Run, Run]) -> None:
    answer = user_client.get(f"/compare?runs={pair[0].pk}&add={pair[1].pk}")
    assert answer.url == f"/compare?runs={pair[0].pk},{pair[1].pk}"
    assert user_client.get(f"/compare?runs=&add={pair[1].pk}").url == f"/compare?runs={pair[1].pk}"


def test_the_twins_hold_the_same_rows(user_client: Client, pair: tuple[Run, Run]) -> None:
    query = f"?runs={pair[0].pk},{pair[1].pk}"
    data = user_client.get(f"/compare.json{query}").json()
    text = b"".join(user_client.get(f"/compare.csv{query}").streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["metric"] for row in rows] == [row["metric"] for row in data["rows"]]
    assert {row["verdict"] for row in rows} >= {"baseline", "worse"}


def test_the_twins_of_nothing_say_what_to_give(user_client: Client) -> None:
    assert "?runs=12,15" in user_client.get("/compare.json").json()["problems"][-1]
    text = b"".join(user_client.get("/compare.csv").streaming_content).decode()
    assert text.startswith("metric,statistic")


def test_the_distributions_are_overlaid(user_client: Client, pair: tuple[Run, Run]) -> None:
    found = user_client.get(f"/compare/chart/ecdf.json?runs={pair[0].pk},{pair[1].pk}&metric=e2e_ms").json()
    names = [trace["name"] for trace in found["figure"]["data"]]
    assert names == [f"run {pair[0].pk}, concurrency 2", f"run {pair[1].pk}, concurrency 2"]
    assert user_client.get("/compare/chart/ecdf.json").json()["figure"] is None
    assert user_client.get("/compare/chart/pie.json").status_code == 404
