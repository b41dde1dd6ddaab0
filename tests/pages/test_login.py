from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.test import Client, RequestFactory

from observatory.pages.login import address
from observatory.pages.models import LoginTries

RIGHT, WRONG = "a long pass phrase", "not that"
START = datetime(2026, 11, 12, 9, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _limits(settings: Any, user: User) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the usual one is slow on purpose
    user.set_password(RIGHT)
    user.save()
    settings.LOGIN_TRIES, settings.LOGIN_WAIT_S, settings.LOGIN_WINDOW_S = 3, 30.0, 900.0


def log_in(password: str, name: str = "ada", where: str = "10.0.0.1") -> str:
    """Empty when it worked, else the page."""
    answer = Client(REMOTE_ADDR=where).post("/login", {"username": name, "password": password})
    return "" if answer.status_code == 302 else answer.content.decode()


def test_a_few_failures_do_not_hinder_the_right_password() -> None:
    for _ in range(2):
        assert "correct username and password" in log_in(WRONG)
    assert log_in(RIGHT) == ""
    assert not LoginTries.objects.exists()


def test_after_more_failures_even_the_right_password_waits_and_each_failure_doubles_the_wait() -> None:
    with time_machine.travel(START, tick=False) as clock:
        for _ in range(3):
            assert "Too many" not in log_in(WRONG)
        assert "Try again in 30 seconds" in log_in(RIGHT)
        clock.shift(29)
        assert "Try again in 1 seconds" in log_in(RIGHT)
        clock.shift(1)
        assert "correct username and password" in log_in(WRONG)
        assert "Try again in 60 seconds" in log_in(RIGHT)
        clock.shift(60)
        assert log_in(RIGHT) == ""


def test_the_wait_is_an_hour_at_most_and_failures_are_forgotten() -> None:
    with time_machine.travel(START, tick=False) as clock:
        for _ in range(3):
            log_in(WRONG)
        LoginTries.objects.update(failures=500)
        assert "Try again in 60 minutes" in log_in(WRONG)
        clock.shift(timedelta(seconds=3600 + 901))
        for _ in range(3):
            assert "Too many" not in log_in(WRONG)


def test_another_name_and_another_address_are_not_hindered() -> None:
    User.objects.create_user("grace", password=RIGHT)
    for name in ("ada", "ADA", "ada"):
        log_in(WRONG, name)
    assert "Too many" in log_in(RIGHT)
    assert log_in(RIGHT, "grace") == ""
    assert log_in(RIGHT, where="10.0.0.2") == ""


def test_a_name_that_nobody_has_is_counted_alike_and_kept_nowhere() -> None:
    for _ in range(3):
        log_in(WRONG, "sk-pasted-by-mistake")
    assert "Too many" in log_in(WRONG, "sk-pasted-by-mistake")
    assert "sk-pasted" not in str(list(LoginTries.objects.values()))


def test_behind_the_tls_proxy_the_address_is_the_last_that_it_adds(settings: Any) -> None:
    request = RequestFactory().get("/login", headers={"X-Forwarded-For": "6.6.6.6, 10.0.0.9"}, REMOTE_ADDR="127.0.0.1")
    assert address(request) == "127.0.0.1"
    settings.HTTPS = True
    assert address(request) == "10.0.0.9"


def test_addresses_of_one_ipv6_network_are_one() -> None:
    first, second = (RequestFactory().get("/", REMOTE_ADDR=f"2001:db8::{end}") for end in (1, 2))
    assert address(first) == address(second) == "2001:db8::/64"
