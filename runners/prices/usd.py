"""Money as a type of its own, in Decimal: it never mixes with token counts and is never rounded in storage."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from runners.prices import Impossible

MILLION = Decimal(1_000_000)


@dataclass(frozen=True, order=True)
class Usd:
    """US dollars. Adds to dollars only: with a number, such as a token count, Python raises TypeError."""

    amount: Decimal

    def __add__(self, other: object) -> "Usd":
        return Usd(self.amount + other.amount) if isinstance(other, Usd) else NotImplemented

    def __sub__(self, other: object) -> "Usd":
        return Usd(self.amount - other.amount) if isinstance(other, Usd) else NotImplemented

    @classmethod
    def total(cls, parts: Iterable[Self]) -> "Usd":
        return Usd(sum((part.amount for part in parts), Decimal(0)))

    @property
    def text(self) -> str:
        """For people: cents from one cent on, below that three significant digits; never 0.00 for what is not 0."""
        if self.amount == 0 or abs(self.amount) >= Decimal("0.01"):
            return f"${self.amount:,.2f}"
        shown = Decimal(f"{self.amount:.2e}")
        return f"${shown:f}"


@dataclass(frozen=True)
class UsdPerMtok:
    """Dollars for a million tokens of one class."""

    rate: Decimal

    def __post_init__(self) -> None:
        if not self.rate.is_finite() or self.rate < 0:
            raise Impossible(f"{self.rate} is no price per million tokens.", "Give 0 or more.")

    def times(self, tokens: int) -> Usd:
        return Usd(self.rate * tokens / MILLION)
