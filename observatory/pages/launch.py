"""Starting a run from a page, with what happened put into words."""

from django.contrib import messages

from observatory.benchmarks.models import Benchmark
from observatory.pages.access import Request
from observatory.runs import dispatch, states
from observatory.runs.models import Run
from runners.spec import SpecError

BROKER_AWAY = (
    "The run is kept and waits, but the broker cannot be reached, so that no worker knows of it yet. "
    "It starts by itself when the broker is back."
)


def start(request: Request, benchmark: Benchmark) -> Run | None:
    """The queued run; None when the benchmark cannot be run, and the user is told what to change. The form's
    ``confirm_usd`` is the amount typed for a run that may cost much.
    """
    try:
        run = states.queue(benchmark, Run.Trigger.PAGE, request.user, request.POST.get("confirm_usd", ""))
    except SpecError as error:
        messages.error(request, f"Not started. {error}")
        return None
    if not dispatch.publish(run):
        messages.warning(request, BROKER_AWAY)
    return run
