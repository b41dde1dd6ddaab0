from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client

from tests.services.valkey import Valkey


@pytest.mark.django_db
def test_with_database_and_broker_all_is_well_and_no_login_is_needed(valkey: Valkey) -> None:
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "database": "ok", "broker": "ok"})


@pytest.mark.django_db
def test_without_a_broker_it_says_which_part_is_down_within_seconds() -> None:
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()) == (503, {"status": "down", "database": "ok", "broker": "down"})


@pytest.mark.django_db
def test_without_a_database_it_says_which_part_is_down(valkey: Valkey) -> None:
    def refuse(execute: Any, sql: str, *rest: Any) -> Any:
        raise OperationalError("the server is gone")

    with connection.execute_wrapper(refuse):
        answer = Client().get("/healthz")
    assert (answer.status_code, answer.json()["database"]) == (503, "down")
    assert b"gone" not in answer.content
