"""Following one instrument to its end, and saying in words how it came to that."""

import time
from collections.abc import Callable

from django.conf import settings

from observatory.runs.ingest import Ending
from observatory.runs.instrument import Instrument
from observatory.runs.models import Run
from observatory.runs.watch import Verdict, Watch

_POLL_S = 0.2
#: A lost run has no claim on its endpoint any more: sending must stop within this.
_LOST_GRACE_S = 2.0

CANCELLED = Ending(Run.Status.CANCELLED, "cancelled", "Cancelled; what was measured until then is kept.")


def follow(run: Run, instrument: Instrument, watch: Watch, beside: Callable[[], Ending | None] | None = None) -> Ending:
    """Waits for the instrument's end, or stops it: when the run is no longer its own, was cancelled, when it hangs, or
    when ``beside``, called several times a second, gives a reason.
    """
    while instrument.listen(_POLL_S):
        verdict = watch.verdict
        if verdict is Verdict.LOST:
            instrument.stop(_LOST_GRACE_S)
            return lease_lost()
        if verdict is Verdict.CANCEL:
            instrument.stop(settings.RUN_STOP_GRACE_S)
            return CANCELLED
        if time.monotonic() - instrument.heard_at > _silence_s(run, instrument):
            instrument.stop(_LOST_GRACE_S)
            return _silent()
        if beside and (ending := beside()):
            instrument.stop(settings.RUN_STOP_GRACE_S)
            return ending
    return _own_end(instrument)


def _silence_s(run: Run, instrument: Instrument) -> float:
    """How long it may say nothing; while it checks the endpoint, as long as one request may take besides."""
    if instrument.progress.get("phase", "check") != "check":
        return float(settings.RUN_SILENCE_S)
    timeouts = run.spec["timeouts"]
    return float(settings.RUN_SILENCE_S + timeouts["connect_s"] + timeouts["total_s"])


def _silent() -> Ending:
    return Ending(
        Run.Status.FAILED,
        "instrument_silent",
        f"The instrument said nothing for {settings.RUN_SILENCE_S:g} seconds and was stopped. "
        "What it had measured is kept.",
    )


def lease_lost() -> Ending:
    return Ending(
        Run.Status.LOST,
        "lease_lost",
        f"The worker could not reach the database for {settings.RUN_LEASE_S:g} seconds and stopped sending. "
        "What it had measured is kept.",
    )


def _own_end(instrument: Instrument) -> Ending:
    """The instrument's own word on how it ended; its exit status when it left none."""
    said = instrument.end or {}
    code, text = str(said.get("code") or ""), str(said.get("text") or "")
    match instrument.exit_status:
        case 0 | 4 if code in ("", "invalid"):
            return Ending(Run.Status.FINISHED)  # the summary says why
        case 4:
            return Ending(Run.Status.FINISHED, code, text)
        case 130:
            return Ending(Run.Status.LOST, "interrupted", text or "Something stopped the instrument from outside.")
        case 2 | 3 if said:
            return Ending(Run.Status.FAILED, code, text)
        case status:
            tail = instrument.stderr_tail
            how = f"by signal {-status}" if status and status < 0 else f"with status {status}"
            return Ending(
                Run.Status.FAILED,
                "instrument_crashed",
                f"The instrument ended {how}. What it had measured is kept." + (f"\n{tail}" if tail else ""),
            )
