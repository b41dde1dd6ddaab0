"""Overview."""

from django.contrib.auth.decorators import login_required
from django.http import HttpResponse

from observatory.pages.access import Request
from observatory.pages.twins import answer
from observatory.runs.models import Run


@login_required
def overview(request: Request, form: str = "html") -> HttpResponse:
    """Overview."""
    return answer(
        request,
        form,
        "pages/overview.html",
        {"runs": Run.objects.all()[:50]},
        rows=lambda: Run.objects.values("id", "status"),
    )
