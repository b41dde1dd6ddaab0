"""The page that proves the calculators while one looks."""

import csv
import io

from django.test import Client

from observatory.theory import proof


def test_every_case_stands_there_with_its_verdict(user_client: Client) -> None:
    html = user_client.get("/selfproof").content.decode()
    assert html.count('<span class="badge ok">green</span>') == len(proof.cases())
    assert "none red" in html
    assert "google-total" in html


def test_its_twins_hold_the_same(user_client: Client) -> None:
    rows = user_client.get("/selfproof.json").json()["rows"]
    assert {row["verdict"] for row in rows} == {"green"}
    answer = user_client.get("/selfproof.csv")
    sheet = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode("utf-8-sig"))))
    assert [row["id"] for row in sheet] == [row["id"] for row in rows]


def test_a_case_leads_to_its_calculator_with_its_inputs(user_client: Client) -> None:
    html = user_client.get("/selfproof").content.decode()
    assert "/theory/duty-cycle?queries_per_hour=1000" in html
    assert user_client.get("/theory/duty-cycle?queries_per_hour=1000&busy_share=0.25").status_code == 200


def test_the_list_of_calculators_leads_there(user_client: Client) -> None:
    assert 'href="/selfproof"' in user_client.get("/theory").content.decode()
