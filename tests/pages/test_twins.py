"""Every page's .json and .csv twins."""

import csv
import io

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.pages.cast import HOSTILE, fill

LISTS = (
    "overview",
    "runs",
    "endpoints",
    "deployments",
    "hardware",
    "sites",
    "embodied",
    "benchmarks",
    "schedules",
    "studies",
)


def rows(client: Client, address: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(client.get(address).getvalue().decode())))


@pytest.mark.parametrize("name", LISTS)
def test_an_empty_list_is_an_empty_list_for_programs_too(user_client: Client, name: str) -> None:
    assert user_client.get(f"/{name}.json").json() == {"rows": []}
    answer = user_client.get(f"/{name}.csv")
    assert answer["Content-Type"] == "text/csv; charset=utf-8"
    assert f'filename="{name}.csv"' in answer["Content-Disposition"]
    assert len(answer.getvalue().decode().splitlines()) == 1


def test_pages_and_twins_tell_the_same(user_client: Client, staff: User) -> None:
    cast = fill(staff)
    endpoint = user_client.get(f"/endpoints/{cast.endpoint.pk}.json").json()
    assert (endpoint["engine"], endpoint["probe"]["models"][0]) == ("llama.cpp", "smollm2-135m")
    deployment = user_client.get(f"/deployments/{cast.deployment.pk}.json").json()
    assert (deployment["endpoint"], deployment["usd_per_hour"]) == (cast.endpoint.name, 2.4)
    assert deployment["site"] is None
    cast.benchmark.refresh_from_db()
    assert user_client.get(f"/benchmarks/{cast.benchmark.pk}.json").json()["load"] == cast.benchmark.load
    card = user_client.get("/hardware/h100-sxm.json").json()
    assert card["bf16_dense_tflops"] == pytest.approx(989, rel=0.01)
    assert card["prices"][0]["source"]
    assert card["cheapest_usd_per_hour"] == min(
        price["usd_per_hour"] for price in card["prices"] if price["usd_per_hour"] is not None
    )
    assert rows(user_client, f"/schedules/{cast.schedule.pk}.csv")[0]["outcome"] == "started"


def test_a_search_narrows_page_and_twins_alike(user_client: Client, staff: User) -> None:
    fill(staff)
    found = user_client.get("/hardware.json?q=h100&vendor=NVIDIA").json()["rows"]
    assert {row["slug"] for row in found} == {"h100-sxm", "h100-pcie", "h100-nvl"}
    assert len(rows(user_client, "/hardware.csv?q=h100")) == 3
    page = user_client.get("/hardware?q=h100").content.decode()
    assert "1–3 of 3" in page
    assert 'href="/hardware.csv?q=h100"' in page
    assert "No site fits" in user_client.get("/sites?q=atlantis").content.decode()


def test_a_name_that_looks_like_a_formula_is_defused(staff_client: Client, staff: User) -> None:
    cast = fill(staff)
    cast.endpoint.name = "=cmd()"
    cast.endpoint.save()
    names = {row["name"] for row in rows(staff_client, "/endpoints.csv")}
    assert "'=cmd()" in names
    assert HOSTILE in {row["model"] for row in rows(staff_client, "/endpoints.csv")}
