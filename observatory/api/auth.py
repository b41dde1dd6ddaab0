"""Who may do what: every address needs a token in the header; endpoints and deployments are changed by staff."""

from django.contrib.auth.models import User
from django.http import HttpRequest
from ninja.security import HttpBearer

from observatory.api import errors, tokens


class Request(HttpRequest):
    """A request whose token was accepted; ``auth`` is the token's user."""

    auth: User


class BearerToken(HttpBearer):
    def authenticate(self, request: HttpRequest, token: str) -> User:
        found = tokens.find(token)
        if found is None:
            raise errors.UNKNOWN_TOKEN
        if found.revoked_at:
            raise errors.REVOKED_TOKEN
        if not found.user.is_active:
            raise errors.INACTIVE_USER
        return found.user


def require_staff(request: Request) -> None:
    """Raises Problem 403."""
    if not request.auth.is_staff:
        raise errors.STAFF_ONLY
