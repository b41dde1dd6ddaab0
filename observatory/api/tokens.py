"""Bearer tokens: made once, shown once, kept only as a hash."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.utils import timezone

from observatory.api.models import Token

_PREFIX_LENGTH = 8
#: ``last_used_at`` is no more exact than this, so that reading does not write each time.
_USE_RESOLUTION = timedelta(minutes=1)


def make(user: User, name: str) -> tuple[Token, str]:
    """A new token and its text: 256 random bits. The text cannot be had again."""
    text = f"obs_{secrets.token_urlsafe(32)}"
    token = Token(user=user, name=name, prefix=text[:_PREFIX_LENGTH], sha256=_sha256(text))
    token.full_clean()
    token.save()
    return token, text


def find(text: str) -> Token | None:
    """The token of that text, revoked or not; its use is noted."""
    token = Token.objects.select_related("user").filter(sha256=_sha256(text)).first()
    if token and not token.revoked_at:
        _note_use(token)
    return token


def revoke(token: Token) -> None:
    """From now on the token is refused; doing it twice keeps the first time."""
    Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=timezone.now())


def _note_use(token: Token) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > _USE_RESOLUTION:
        Token.objects.filter(pk=token.pk).update(last_used_at=now)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
