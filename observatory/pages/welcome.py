"""First run."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import render

from observatory.pages.access import Request


@login_required
def welcome(request: Request) -> HttpResponse:
    """First run."""
    return render(request, "pages/welcome.html")
