"""The page of a request that failed for a reason of ours."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.defaults import server_error

from observatory.runs import disk


def fault(request: HttpRequest) -> HttpResponse:
    """507 with where to free space when a disk is full, else 500. Django calls it while it handles the exception."""
    error = sys.exception()
    if error is None or not disk.full(error):
        return server_error(request)
    return render(request, "507.html", {"what_to_do": disk.what_to_do(error)}, status=507)
