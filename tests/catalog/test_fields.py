from collections.abc import Iterator

import pytest
from cryptography.fernet import Fernet
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import connection
from django.forms import modelform_factory

from observatory.catalog.models import Endpoint

pytestmark = pytest.mark.django_db

KEY = "sk-canary-0123456789-WXYZ"


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    return Endpoint.objects.create(name="one", url="http://127.0.0.1:8000", model="m", api_key=KEY)


def stored_key() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT api_key FROM catalog_endpoint")
        return str(cursor.fetchone()[0])


def test_a_key_is_stored_encrypted_and_read_back_plain(endpoint: Endpoint) -> None:
    assert KEY not in stored_key()
    assert Endpoint.objects.get().api_key == KEY


def test_no_key_stays_no_key() -> None:
    Endpoint.objects.create(name="one", url="http://127.0.0.1:8000", model="m")
    assert stored_key() == ""
    assert Endpoint.objects.get().api_key_hint == ""


def test_the_hint_shows_the_last_four_characters_of_a_long_key_and_none_of_a_short_one(endpoint: Endpoint) -> None:
    assert endpoint.api_key_hint == "…WXYZ"
    endpoint.api_key = "short"
    assert endpoint.api_key_hint == "…"


def test_a_wrong_key_is_an_error_that_says_what_to_put_back(endpoint: Endpoint, settings: object) -> None:
    settings.FIELD_KEYS = [Fernet.generate_key().decode()]  # type: ignore[attr-defined]
    with pytest.raises(ImproperlyConfigured, match="FIELD_KEYS"):
        Endpoint.objects.get()


def test_after_a_key_rotation_old_secrets_are_readable_and_saving_moves_them_to_the_new_key(
    endpoint: Endpoint, settings: object
) -> None:
    old, new = settings.FIELD_KEYS[0], Fernet.generate_key().decode()  # type: ignore[attr-defined]
    settings.FIELD_KEYS = [new, old]  # type: ignore[attr-defined]
    moved = Endpoint.objects.get()
    assert moved.api_key == KEY
    moved.save()
    settings.FIELD_KEYS = [new]  # type: ignore[attr-defined]
    assert Endpoint.objects.get().api_key == KEY


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://key:secret@host/v1", "API key field"),
        ("http+unix://%2Frun%2Fllm.sock", "http:// or https://"),
        ("http://[fe80::1%25eth0]/", "zone ids"),
        ("http://[fe80::1]/", "link-local"),
        ("http://169.254.169.254/latest", "never contacted"),
        ("http://host/v1#part", "base address"),
        ("", "http:// or https://"),
    ],
)
def test_a_form_and_the_model_refuse_a_bad_url_with_the_fix(url: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Endpoint(name="one", url=url, model="m").full_clean()
    form = modelform_factory(Endpoint, fields=["name", "url", "dialect", "model"])(
        {"name": "one", "url": url, "dialect": "openai-chat", "model": "m"}
    )
    assert "url" in form.errors
    assert "secret" not in str(form.errors["url"])


def test_a_url_is_kept_as_rebuilt_from_its_parts() -> None:
    endpoint = Endpoint(name="one", url=" HTTP://127.0.0.1:1\\@Example.com/ ", model="m")
    endpoint.full_clean()
    assert endpoint.url == "http://127.0.0.1:1/@Example.com"
