"""Published numbers, and inputs that other tools got wrong, put to the calculators.

``data/reference_cases.csv``: a row is one output of one calculator. ``expected`` is a number within ``tolerance``, a
text, nothing (the output must be unknown), or "refused" (the inputs must be).
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import cache
from pathlib import Path
from typing import Any

from observatory.theory import registry
from observatory.theory.calculator import Refused

DATA = Path(__file__).resolve().parent / "data" / "reference_cases.csv"
REFUSED = "refused"


@dataclass(frozen=True)
class Case:
    id: str
    domain: str
    calculator: str
    inputs: Mapping[str, str]
    output: str
    expected: str
    unit: str
    tolerance: str
    note: str
    source: str

    @property
    def command(self) -> str:
        """What recalculates it on the command line."""
        words = (f"'{name}={value}'" if " " in value else f"{name}={value}" for name, value in self.inputs.items())
        return f"manage.py calc {self.calculator} {' '.join(words)}"


@dataclass(frozen=True)
class Outcome:
    """``got`` is None for an unknown output, "refused" for refused inputs (``words`` says why). ``difference`` is
    got - expected, where both are numbers.
    """

    case: Case
    got: str | None
    passed: bool
    difference: Decimal | None = None
    words: str = ""

    @property
    def verdict(self) -> str:
        return "green" if self.passed else "red"


@cache
def cases() -> tuple[Case, ...]:
    with DATA.open(newline="", encoding="utf-8") as file:
        return tuple(Case(inputs=_inputs(row.pop("inputs")), **row) for row in csv.DictReader(file, strict=True))


def _inputs(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split(";"))}


def prove() -> list[Outcome]:
    """Every case, calculated now."""
    return [check(case) for case in cases()]


def check(case: Case) -> Outcome:
    calculator = registry.BY_NAME[case.calculator]
    try:
        got = getattr(calculator.run(calculator.read(case.inputs)), case.output)
    except Refused as error:
        return Outcome(case, REFUSED, case.expected == REFUSED, words=str(error).removeprefix(": ").strip())
    if case.expected == "" or got is None:
        return Outcome(case, None if got is None else str(got), got is None and case.expected == "")
    return _number(case, got)


def _number(case: Case, got: Any) -> Outcome:
    try:
        found, expected = Decimal(str(got)), Decimal(case.expected)
    except InvalidOperation:
        return Outcome(case, str(got), str(got) == case.expected)
    difference = found - expected
    return Outcome(case, str(got), abs(difference) <= Decimal(case.tolerance), difference)
