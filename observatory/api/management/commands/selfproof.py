"""``manage.py selfproof``: published numbers and known faults, put to the calculators."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from observatory.theory.proof import Outcome, prove


class Command(BaseCommand):
    help = "Check every calculator against published numbers and known faults. Ends with 1 when one is red."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="Every case as JSON")
        parser.add_argument("--red", action="store_true", help="Only what is red")

    def handle(self, *args: Any, **options: Any) -> None:
        outcomes = prove()
        red = [outcome for outcome in outcomes if not outcome.passed]
        shown = red if options["red"] else outcomes
        if options["json"]:
            self.stdout.write(json.dumps([_plain(outcome) for outcome in shown], indent=2, allow_nan=False))
        else:
            for outcome in shown:
                self.stdout.write(_line(outcome))
            self.stdout.write(f"{len(outcomes) - len(red)} green, {len(red)} red")
        if red:
            sys.exit(1)


def _line(outcome: Outcome) -> str:
    case = outcome.case
    expected = case.expected or "unknown"
    got = outcome.words or ("unknown" if outcome.got is None else outcome.got)
    if outcome.passed and not outcome.difference:
        return f"green  {case.id}: {expected} {case.unit}".rstrip()
    off = f", off by {outcome.difference:.2g}" if outcome.difference is not None else ""
    return f"{outcome.verdict:<5}  {case.id}: expected {expected} {case.unit}, got {got}{off}".replace(" ,", ",")


def _plain(outcome: Outcome) -> dict[str, Any]:
    case = outcome.case
    return {
        "id": case.id,
        "passed": outcome.passed,
        "calculator": case.calculator,
        "inputs": dict(case.inputs),
        "output": case.output,
        "expected": case.expected or None,
        "got": outcome.got,
        "difference": None if outcome.difference is None else float(outcome.difference),
        "tolerance": case.tolerance,
        "unit": case.unit,
        "note": case.note,
        "source": case.source,
    }
