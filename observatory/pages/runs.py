"""Runs."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse

from observatory.pages.access import Request
from observatory.pages.twins import answer
from observatory.runs.models import Run


@login_required
def runs(request: Request, form: str = "html") -> HttpResponse:
    """Runs."""
    return answer(
        request,
        form,
        "runs/runs.html",
        {"runs": Run.objects.all()[:50]},
        rows=lambda: Run.objects.values("id", "status"),
    )
