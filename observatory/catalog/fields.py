"""Fields of the catalog: text that is encrypted at rest, and the URL of an endpoint."""

from functools import lru_cache
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.db import models

from runners.address import AddressError, parse_endpoint


def visible_ascii(key: str) -> None:
    """Raises ValidationError for what an HTTP header cannot carry, or could be ended by."""
    if not all("!" <= letter <= "~" for letter in key):
        raise ValidationError(
            "It holds a character that no key can have, such as a space, a line break or a letter outside ASCII. "
            "Copy the key anew."
        )


def storable(value: Any) -> None:
    """Raises ValidationError for JSON that not every database takes."""
    if isinstance(value, dict):
        for name, item in value.items():
            storable(name)
            storable(item)
    elif isinstance(value, list):
        for item in value:
            storable(item)
    elif isinstance(value, str) and ("\x00" in value or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise ValidationError("It holds a character that no text can have, such as NUL.")


@lru_cache
def _cipher(keys: tuple[str, ...]) -> MultiFernet:
    return MultiFernet([Fernet(key) for key in keys])


class EncryptedTextField(models.TextField):  # type: ignore[type-arg]
    """Stored as a Fernet token under FIELD_KEYS (newest first); plain text in Python. Cannot be searched.

    The ready-made packages give back ciphertext on a wrong key; this one refuses.
    """

    def get_prep_value(self, value: Any) -> Any:
        return _cipher(tuple(settings.FIELD_KEYS)).encrypt(value.encode()).decode() if value else ""

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if not value:
            return value
        try:
            return _cipher(tuple(settings.FIELD_KEYS)).decrypt(value.encode()).decode()
        except InvalidToken:
            raise ImproperlyConfigured(
                "A stored secret cannot be read with FIELD_KEYS. Put the key that it was stored under back into "
                "FIELD_KEYS (older keys may follow the newest, separated by commas)."
            ) from None


class EndpointURLField(models.CharField):  # type: ignore[type-arg]
    """A URL that ``runners.address`` accepts.

    ``clean`` gives it back rebuilt from its parts, for forms and API alike.
    """

    def clean(self, value: Any, model_instance: models.Model | None) -> Any:
        try:
            url = parse_endpoint(self.to_python(value) or "").url
        except AddressError as error:
            raise ValidationError(str(error), code="url") from None
        return super().clean(url, model_instance)
