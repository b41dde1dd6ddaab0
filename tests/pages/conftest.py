from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.browser import browser, chromium
from tests.services.misbehaving import Server, Wire, good, serving

__all__ = ["browser", "chromium"]


@pytest.fixture
def user(db: Any) -> User:
    """Without a password: hashing one is slow on purpose."""
    return User.objects.create_user("ada")


@pytest.fixture
def staff(db: Any) -> User:
    return User.objects.create_user("grace", is_staff=True)


@pytest.fixture
def user_client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def staff_client(staff: User) -> Client:
    client = Client()
    client.force_login(staff)
    return client


@pytest.fixture
def server() -> Iterator[Server]:
    """A model server that names one model, "m", and answers it well; "broken" answers 500."""
    with serving({"m": good, "broken": fails}) as started:
        yield started


def fails(wire: Wire) -> None:
    wire.body(b'{"error": {"message": "the card fell off"}}', status="500 Internal Server Error")
