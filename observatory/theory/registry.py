"""Every calculator, in the order in which they are listed."""

from typing import Any

from observatory.theory import speculation
from observatory.theory.calculator import Calculator

#: What techniques of serving can gain.
TECHNIQUES: tuple[Calculator[Any, Any], ...] = (speculation.SPECULATIVE,)

#: Cost, energy and carbon.
ACCOUNTS: tuple[Calculator[Any, Any], ...] = ()

CALCULATORS = TECHNIQUES + ACCOUNTS
BY_NAME = {calculator.name: calculator for calculator in CALCULATORS}
