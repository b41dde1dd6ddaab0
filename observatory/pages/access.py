"""Who may see and change what: every page needs a login; the catalog is changed by staff."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django_htmx.middleware import HtmxDetails

View = Callable[..., HttpResponseBase]


class Request(HttpRequest):
    """The request of a logged-in user."""

    user: User
    htmx: HtmxDetails


def staff_required(view: View) -> View:
    """Anonymous visitors go to the login page; others without the staff right get a page that says whom to ask."""

    @login_required
    @wraps(view)
    def checked(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_staff:
            raise PermissionDenied("Only staff may change the catalog. Ask someone with the staff right.")
        return view(request, *args, **kwargs)

    return checked
