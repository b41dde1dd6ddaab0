"""What a machine costs an hour, on a stated basis, and what that makes of a token or a query.

Formula: $ per M tokens = $/h / (tokens/s x 0.0036). One hour is charged whole to the tokens of one denominator (output,
input or total), so prices of two denominators never add up: each carries the whole hour.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from runners.prices import Impossible

HOURS_PER_YEAR = 8760
J_PER_KWH = 3.6e6


class Basis(StrEnum):
    """What the price of an hour is made of."""

    RENT = "rent"
    OWN = "own"
    ELECTRICITY = "electricity"
    API = "api"


class Terms(StrEnum):
    """``reserved`` hours are paid whether used or not; ``on-demand`` ones are given back when idle."""

    RESERVED = "reserved"
    ON_DEMAND = "on-demand"


class Denominator(StrEnum):
    """Which tokens carry the hour."""

    OUTPUT = "output"
    INPUT = "input"
    TOTAL = "total"


@dataclass(frozen=True)
class TokenPrice:
    """Dollars per million tokens of one denominator, which carries the whole hour."""

    usd: float
    of: Denominator

    def __add__(self, other: object) -> "TokenPrice":
        if isinstance(other, TokenPrice):
            raise Impossible(
                f"A price per {self.of} token and one per {other.of} token each carry the whole hour: "
                "adding them would charge it twice.",
                "Take the price per total token.",
            )
        return NotImplemented


@dataclass(frozen=True)
class Hour:
    """Dollars for an hour of serving. ``capital_usd`` and ``electricity_usd`` are its parts where they are known."""

    usd: float
    basis: Basis
    words: str
    capital_usd: float | None = None
    electricity_usd: float | None = None

    def shared(self, utilisation: float, words: str) -> "Hour":
        """The hours that serve carry those that do not: an hour of serving costs 1 / utilisation as much."""
        if not 0 < utilisation <= 1:
            raise Impossible(f"A utilisation of {utilisation:g} is no share.", "Give one above 0 and at most 1.")
        if utilisation == 1:
            return self
        parts = [None if part is None else part / utilisation for part in (self.capital_usd, self.electricity_usd)]
        return replace(
            self,
            usd=self.usd / utilisation,
            words=f"{self.words} / {utilisation:.0%} {words}",
            capital_usd=parts[0],
            electricity_usd=parts[1],
        )


def rent(usd_per_gpu_hour: float, gpus: float, *, terms: Terms = Terms.RESERVED, utilisation: float = 1.0) -> Hour:
    """Hired machines. On demand, idle hours are not paid, so utilisation does not matter."""
    hour = Hour(usd_per_gpu_hour * gpus, Basis.RENT, f"{usd_per_gpu_hour:g} $/h × {gpus:g}")
    return hour if terms is Terms.ON_DEMAND else hour.shared(utilisation, "of the paid hours serve")


def own(
    capex_usd: float, years: float, *, power_w: float, pue: float, usd_per_kwh: float, utilisation: float = 1.0
) -> Hour:
    """Bought machines: purchase spread evenly over its years, and the electricity of the mean IT power with overhead.

    Staff, space and interest are not in it. An idle hour is taken to draw the same power, which errs upwards.
    """
    capital = capex_usd / (years * HOURS_PER_YEAR)
    electricity = power_w / 1e3 * pue * usd_per_kwh
    words = f"{capex_usd:g} $ over {years:g} years + {power_w:.4g} W × PUE {pue:g} × {usd_per_kwh:g} $/kWh"
    hour = Hour(capital + electricity, Basis.OWN, words, capital, electricity)
    return hour.shared(utilisation, "of the hours serve")


def electricity(power_w: float, pue: float, usd_per_kwh: float) -> Hour:
    """The electricity of the mean IT power with overhead, and nothing else."""
    usd = power_w / 1e3 * pue * usd_per_kwh
    words = f"{power_w:.4g} W × PUE {pue:g} × {usd_per_kwh:g} $/kWh"
    return Hour(usd, Basis.ELECTRICITY, words, electricity_usd=usd)


def token_price(hour_usd: float, tokens_per_s: float, of: Denominator) -> TokenPrice:
    """$ per M tokens = $/h / (tokens/s x 0.0036). Source: definition; InferenceX computes the same."""
    return TokenPrice(hour_usd / (tokens_per_s * 0.0036), of)


def query_price(hour_usd: float, queries_per_s: float) -> float:
    """$ per query = $/h / (queries/s x 3600)."""
    return hour_usd / (queries_per_s * 3600)


def electricity_per_mtok(j_per_token: float, pue: float, usd_per_kwh: float) -> float:
    """$ per M tokens of the electricity: J/token x PUE x $/kWh / 3.6."""
    return j_per_token * pue * usd_per_kwh / 3.6


def break_even_utilisation(hour_usd: Decimal, api_usd_per_full_hour: Decimal) -> Decimal:
    """Share of the hours that must serve at full throughput for the machine to cost what the API would.

    Above 1: the API is cheaper however busy the machine is.
    """
    return hour_usd / api_usd_per_full_hour


def reserved_break_even(reserved_usd: float, on_demand_usd: float) -> float:
    """Utilisation above which a reserved hour is cheaper than one on demand."""
    return reserved_usd / on_demand_usd


@dataclass(frozen=True)
class Allocation:
    """A share of a card for a time: what was used and what stood idle add up to what was allocated."""

    allocated_usd: float
    used_usd: float
    idle_usd: float


def allocation(share: float, hours: float, usd_per_gpu_hour: float, used: float) -> Allocation:
    """``share`` of the card was reserved, of which ``used`` (0 to 1) was busy; idle is a line of its own."""
    total = share * hours * usd_per_gpu_hour
    return Allocation(total, total * used, total * (1 - used))
