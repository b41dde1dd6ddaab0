"""Published numbers and known faults, put to the calculators while the page is asked for."""

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpResponseBase

from observatory.pages.access import Request
from observatory.pages.twins import answer
from observatory.theory.proof import Outcome, prove


@login_required
def selfproof(request: Request, form: str = "html") -> HttpResponseBase:
    """Every case, green or red, with its difference and what recalculates it."""
    outcomes = prove()
    rows = [_row(outcome) for outcome in outcomes]
    domains: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        domains.setdefault(outcome.case.domain, []).append(outcome)
    red = sum(not outcome.passed for outcome in outcomes)
    context = {"domains": domains, "green": len(outcomes) - red, "red": red}
    return answer(request, form, "theory/selfproof.html", context, rows=lambda: rows)


def _row(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "id": case.id,
        "verdict": outcome.verdict,
        "domain": case.domain,
        "calculator": case.calculator,
        "output": case.output,
        "expected": case.expected or None,
        "got": outcome.got,
        "difference": None if outcome.difference is None else float(outcome.difference),
        "tolerance": case.tolerance,
        "unit": case.unit,
        "command": case.command,
        "note": case.note,
        "source": case.source,
    }
