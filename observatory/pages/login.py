"""The login page. Who fails again and again from one address waits, each time longer."""

import ipaddress
import unicodedata
from datetime import timedelta
from math import ceil
from typing import Any

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import ValidationError
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone
from django.utils.crypto import salted_hmac

from observatory.pages.models import LoginTries

_MOST_WAIT_S = 3600.0
_DOUBLINGS = 20


class LoginForm(AuthenticationForm):
    """A try is counted before the password is looked at, so that many at once are counted as well."""

    def clean(self) -> dict[str, Any]:
        key = _key(self.cleaned_data.get("username", ""), address(self.request))
        wait_s = _count(key)
        if wait_s > 0:
            raise ValidationError(
                f"Too many failed logins. Try again in {_words(wait_s)}; until then no password is taken.",
                code="throttled",
            )
        found: dict[str, Any] = super().clean()
        LoginTries.objects.filter(key=key).delete()
        return found


login = LoginView.as_view(authentication_form=LoginForm, redirect_authenticated_user=True)


def address(request: HttpRequest | None) -> str:
    """Where a request comes from; behind the TLS proxy (HTTPS=1) what that one says last. IPv6: its /64."""
    text = request.META.get("REMOTE_ADDR", "") if request else ""
    if request and settings.HTTPS:
        text = request.headers.get("X-Forwarded-For", text).rpartition(",")[2].strip()
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(ipaddress.ip_network(f"{found}/64", strict=False)) if found.version == 6 else str(found)


def _key(username: str, where: str) -> str:
    name = unicodedata.normalize("NFKC", username).casefold()
    return salted_hmac("login tries", f"{name}\n{where}", algorithm="sha256").hexdigest()


def _count(key: str) -> float:
    """Counts a try, and returns how many seconds are to be waited instead; a try that must wait is not counted."""
    now = timezone.now()
    LoginTries.objects.filter(last_at__lt=now - timedelta(seconds=settings.LOGIN_WINDOW_S + _MOST_WAIT_S)).delete()
    tries, _ = LoginTries.objects.get_or_create(key=key, defaults={"last_at": now})
    waited_s = (now - tries.last_at).total_seconds()
    wait_s = _wait_s(tries.failures)
    if wait_s > waited_s:
        return wait_s - waited_s
    began_anew = waited_s > settings.LOGIN_WINDOW_S + wait_s
    same = LoginTries.objects.filter(key=key, failures=tries.failures)
    if same.update(failures=1 if began_anew else F("failures") + 1, last_at=now):
        return 0.0
    return max(_wait_s(tries.failures + 1), 1.0)


def _wait_s(failures: int) -> float:
    """None below LOGIN_TRIES; then LOGIN_WAIT_S, doubled with each further failure, an hour at most."""
    over = failures - settings.LOGIN_TRIES
    return 0.0 if over < 0 else min(settings.LOGIN_WAIT_S * 2.0 ** min(over, _DOUBLINGS), _MOST_WAIT_S)


def _words(seconds: float) -> str:
    return f"{ceil(seconds)} seconds" if seconds < 120 else f"{ceil(seconds / 60)} minutes"
