from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.browser import browser, chromium

__all__ = ["browser", "chromium"]


@pytest.fixture(autouse=True)
def _media(settings: Any, tmp_path: Path) -> None:
    settings.MEDIA_ROOT = tmp_path


@pytest.fixture
def user(db: Any) -> User:
    return User.objects.create(username="ada")


@pytest.fixture
def user_client(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client
