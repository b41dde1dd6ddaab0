import re
from datetime import timedelta

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from observatory.api import tokens
from observatory.api.models import Token
from tests.api.conftest import Caller

pytestmark = pytest.mark.django_db


def test_a_token_has_256_random_bits_and_only_its_hash_is_kept(user: User) -> None:
    token, text = tokens.make(user, "ci")
    assert re.fullmatch(r"obs_[A-Za-z0-9_-]{43}", text)
    assert text.startswith(token.prefix)
    assert len(token.prefix) == 8
    row = Token.objects.values().get()
    assert text not in str(row)
    assert len(row["sha256"]) == 64


def test_a_token_opens_the_api_and_its_use_is_noted(as_user: Caller) -> None:
    assert as_user.get("/runs").status_code == 200
    first = Token.objects.get().last_used_at
    assert first is not None
    assert as_user.get("/runs").status_code == 200
    assert Token.objects.get().last_used_at == first
    with time_machine.travel(first + timedelta(minutes=2)):
        as_user.get("/runs")
    assert Token.objects.get().last_used_at > first


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "token_missing"),
        ("Basic dW5hOmNvcnJlY3Q=", "token_missing"),
        ("Bearer", "token_unknown"),
        ("Bearer ", "token_unknown"),
        ("Bearer obs_wrong", "token_unknown"),
        ("Bearer \udcff\x00", "token_unknown"),
    ],
)
def test_without_a_good_token_the_answer_says_how_to_get_one(header: str | None, code: str) -> None:
    answer = Client().get("/api/v1/runs", headers={} if header is None else {"Authorization": header})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert answer.json()["code"] == code
    assert "manage.py token" in answer.json()["fix"]


def test_a_revoked_token_is_refused_as_such(user: User, as_user: Caller) -> None:
    tokens.revoke(user.tokens.get())
    revoked_at = user.tokens.get().revoked_at
    answer = as_user.get("/runs")
    assert (answer.status_code, answer.json()["code"]) == (401, "token_revoked")
    tokens.revoke(user.tokens.get())
    assert user.tokens.get().revoked_at == revoked_at


def test_the_token_of_a_user_who_was_switched_off_is_refused(user: User, as_user: Caller) -> None:
    User.objects.update(is_active=False)
    answer = as_user.get("/runs")
    assert (answer.status_code, answer.json()["code"]) == (401, "user_inactive")


def test_a_browsers_login_alone_does_not_open_the_api(staff: User) -> None:
    browser = Client()
    browser.force_login(staff)
    answer = browser.get("/api/v1/runs")
    assert (answer.status_code, answer.json()["code"]) == (401, "token_missing")


def test_a_token_in_the_address_does_not_open_the_api(user: User) -> None:
    _, text = tokens.make(user, "ci")
    assert Client().get(f"/api/v1/runs?token={text}&access_token={text}").status_code == 401


def test_the_command_prints_a_working_token_once(user: User, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("token", "una", "nightly job")
    text = capsys.readouterr().out.strip()
    assert Caller(text).get("/runs").status_code == 200
    assert user.tokens.get().name == "nightly job"


@pytest.mark.parametrize(("username", "name", "words"), [("bob", "x", "manage.py user"), ("una", "x" * 101, "100")])
def test_the_command_says_what_is_wrong(user: User, username: str, name: str, words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("token", username, name)
    assert not Token.objects.exists()


def test_the_command_adds_a_person_with_a_password_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("user", "ida")
    call_command("user", "sam", "--staff")
    first, second = capsys.readouterr().out.split()
    ida, sam = User.objects.get(username="ida"), User.objects.get(username="sam")
    assert ida.check_password(first)
    assert sam.check_password(second)
    assert [(user.is_staff, user.is_superuser) for user in (ida, sam)] == [(False, False), (True, False)]


def test_the_command_asks_for_a_password_and_refuses_bad_ones_and_taken_names(
    monkeypatch: pytest.MonkeyPatch, user: User
) -> None:
    command = "observatory.api.management.commands.user.getpass"
    for typed, words in ((["short"] * 2, "too short"), (["correct horse 1", "correct horse 2"], "differ")):
        answers = iter(typed)
        monkeypatch.setattr(command, lambda _, answers=answers: next(answers))
        with pytest.raises(CommandError, match=words):
            call_command("user", "ida", "--ask")
    with pytest.raises(CommandError, match="valid username"):
        call_command("user", "not a name")
    with pytest.raises(CommandError, match="changepassword una"):
        call_command("user", user.username)
    assert User.objects.count() == 1
    monkeypatch.setattr(command, lambda _: "correct horse 1")
    call_command("user", "ida", "--ask")
    assert User.objects.get(username="ida").check_password("correct horse 1")
