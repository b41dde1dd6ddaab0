"""API tokens."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render

from observatory.pages.access import Request


@login_required
def tokens(request: Request) -> HttpResponse:
    """API tokens."""
    return render(request, "pages/tokens.html")
