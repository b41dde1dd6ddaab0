"""The list of runs, and cancelling one."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from observatory.pages.access import Request
from observatory.pages.listing import arrange
from observatory.pages.run_columns import COLUMNS, chosen
from observatory.pages.run_filter import RunFilter
from observatory.pages.run_lists import row, shown, table
from observatory.pages.twins import answer
from observatory.reports.results import wide
from observatory.runs import states
from observatory.runs.models import Run

ACTIVE = (Run.Status.QUEUED, Run.Status.RUNNING)


@login_required
def runs(request: Request, form: str = "html") -> HttpResponseBase:
    """Runs under the filters, in the order and with the columns that the URL asks for."""
    filtered = RunFilter(request.GET, Run.objects.all())
    columns = chosen(request.GET.getlist("columns"))
    listed = table(filtered.qs, columns, request.GET.get("sort", ""))
    context = {
        "table": arrange(listed, request),
        "filter": filtered,
        "chips": filtered.chips(),
        "troubles": filtered.troubles(),
        "all_columns": COLUMNS.values(),
        "columns": columns,
        "live": Run.objects.filter(status__in=ACTIVE).exists(),
    }
    return answer(
        request,
        form,
        "runs/runs.html",
        context,
        rows=lambda: (row(run, columns) for run in shown(filtered.qs, columns)),
        sheet=lambda: wide(filtered.qs),
    )


@login_required
@require_POST
def cancel(request: Request, pk: int) -> HttpResponse:
    """Asks the run to stop; what it has measured so far is kept. Leads to ``next``, or to the run's page."""
    run = get_object_or_404(Run, pk=pk)
    if states.request_cancel(pk):
        messages.success(request, f"Run {pk} is being cancelled. What it has measured so far is kept.")
    else:
        messages.info(request, f"Run {pk} had ended already; nothing was cancelled.")
    back = request.POST.get("next", "")
    known = url_has_allowed_host_and_scheme(back, allowed_hosts=None)
    return redirect(back if known else run.get_absolute_url())
