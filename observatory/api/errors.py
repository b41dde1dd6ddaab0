"""One shape for every error: a code for programs, what happened, and what to do."""

import logging
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from ninja import NinjaAPI, Schema
from ninja.errors import AuthenticationError, HttpError, Throttled, ValidationError

from observatory.runs import disk


class Fault(Schema):
    """One field that was refused."""

    field: str
    problem: str


class Error(Schema):
    code: str
    detail: str
    fix: str
    fields: list[Fault] = []


class Problem(Exception):
    """An answer other than success."""

    def __init__(self, status: int, code: str, detail: str, fix: str, fields: list[Fault] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.error = Error(code=code, detail=detail, fix=fix, fields=fields or [])


_MAKE_ONE = "Make a token on the Tokens page or with `manage.py token USERNAME NAME`, and send it as "
NO_TOKEN = Problem(
    401,
    "token_missing",
    "This address needs a token; a browser's login does not count here.",
    _MAKE_ONE + "`Authorization: Bearer TOKEN`.",
)
UNKNOWN_TOKEN = Problem(
    401,
    "token_unknown",
    "No such token.",
    "Check that it was copied whole. " + _MAKE_ONE + "`Authorization: Bearer TOKEN`.",
)
REVOKED_TOKEN = Problem(401, "token_revoked", "This token was revoked.", _MAKE_ONE + "`Authorization: Bearer TOKEN`.")
INACTIVE_USER = Problem(
    401, "user_inactive", "The user of this token is switched off.", "Ask an administrator to switch the user on."
)
STAFF_ONLY = Problem(
    403,
    "staff_only",
    "Only staff may change endpoints and deployments.",
    "Ask someone with the staff right, or use a token of theirs.",
)
NO_SUCH_ADDRESS = Problem(
    404, "no_such_address", "There is nothing at this address.", "GET /api/v1/docs lists all addresses."
)


def refused(fields: list[Fault], *, reading: bool = False) -> Problem:
    """422, naming each field and its fault. A request that only reads cannot have changed anything: it is not said."""
    detail = "Some parameters were refused." if reading else "Some values were refused; nothing was changed."
    return Problem(422, "invalid", detail, "Correct the fields listed here.", fields)


def install(api: NinjaAPI) -> None:
    """Makes ``api`` answer every error in the one shape. (Its handlers' type also allows classes of errors: Any.)"""

    def answer(request: HttpRequest, problem: Any) -> HttpResponse:
        response = api.create_response(request, problem.error.model_dump(), status=problem.status)
        if problem.status == 401:
            response["WWW-Authenticate"] = "Bearer"
        return response

    def http_error(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(request, _of_http_error(error))

    def validation_error(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(request, refused([_fault(item) for item in error.errors], reading=request.method == "GET"))

    def misconfigured(request: HttpRequest, error: Any) -> HttpResponse:
        return answer(request, Problem(500, "misconfigured", str(error), "Ask the administrator of this installation."))

    def surprise(request: HttpRequest, error: Any) -> HttpResponse:
        logging.getLogger(__name__).error("%s %s failed", request.method, request.path, exc_info=error)
        return answer(request, _disk_full(error) if disk.full(error) else _OUR_FAULT)

    api.add_exception_handler(Problem, answer)
    api.add_exception_handler(HttpError, http_error)
    api.add_exception_handler(ValidationError, validation_error)
    api.add_exception_handler(ImproperlyConfigured, misconfigured)
    api.add_exception_handler(Exception, surprise)


_OUR_FAULT = Problem(
    500, "our_fault", "The application failed at this.", "Try again; if it stays, look into the web server's log."
)


def _disk_full(error: Exception) -> Problem:
    detail = "The disk is full; what was sent could not be kept."
    return Problem(507, "disk_full", detail, f"{disk.what_to_do(error)} Then send it again.")


def _of_http_error(error: HttpError) -> Problem:
    if isinstance(error, AuthenticationError):
        return NO_TOKEN
    if isinstance(error, Throttled):
        return Problem(429, "too_many_requests", "Too many requests from this user.", "Wait a second, then go on.")
    return Problem(error.status_code, "bad_request", str(error), "Send a JSON object as the body.")


def _fault(item: dict[str, Any]) -> Fault:
    """``loc`` is such as ("body", "payload", "levels", 0); its first two parts say only where it was sent."""
    place, *path = item["loc"]
    names = path[1:] if place == "body" and len(path) > 1 else path
    return Fault(field=".".join(str(name) for name in names) or place, problem=item["msg"])
