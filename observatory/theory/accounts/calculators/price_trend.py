"""How fast the price of a fixed capability falls, and what that and growing use make of the bill."""

import csv
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path

from observatory.theory.accounts import trend
from observatory.theory.accounts.calculators.frame import refusing
from observatory.theory.accounts.calculators.price_trend_plots import plots
from observatory.theory.accounts.price_history import Kind, capable, listings, steps
from observatory.theory.calculator import Calculator, refuse
from observatory.theory.fields import choice, number, result, series, text

DATA = Path(__file__).resolve().parents[2] / "data" / "price_trends.csv"


class Capability(StrEnum):
    """At least so many per cent on GPQA Diamond; 35 is what GPT-4 of March 2023 reached."""

    GPQA_35 = "gpqa-35"
    GPQA_45 = "gpqa-45"
    GPQA_55 = "gpqa-55"
    GPQA_65 = "gpqa-65"
    GPQA_75 = "gpqa-75"
    GPQA_80 = "gpqa-80"

    @property
    def score(self) -> int:
        return int(self.removeprefix("gpqa-"))


@dataclass(frozen=True)
class Inputs:
    capability: Capability = choice(
        Capability.GPQA_35, "Capability", "At least so many per cent on GPQA Diamond; 35: GPT-4 of March 2023."
    )
    price: Kind = choice(Kind.OUTPUT, "Price of", "Tokens; blend: three of input to one of output.")
    times_more_tokens: float = number(
        10, "×/year", "Growth of use", "How many times more tokens are bought a year later.",
        low=0.01, high=1e6, symbol="v", group="Spend",
    )  # fmt: skip
    spend_usd_per_month: float = number(
        1000, "$/month", "Spend today", "For all these tokens.", low=0, high=1e12, symbol="s", group="Spend"
    )
    years: float = number(2, "years", "Ahead", "As if price and use went on so.", low=0.1, high=20, group="Spend")
    days: str = text(
        "", "Days", "As 2023-03-14, with commas between. Empty: the history.", longest=2000, group="Prices of your own"
    )
    usd_per_mtok: tuple[float, ...] = series(
        (), "$/Mtok", "Prices", "One for each day.", low=1e-9, high=1e9, group="Prices of your own"
    )


@dataclass(frozen=True)
class Point:
    day: str = result(label="Day")
    usd_per_mtok: float = result("$/Mtok", "Price")
    score: float | None = result("%", "GPQA Diamond", decimals=1)
    what: str = result(label="Model")
    dated_by: str = result(label="Dated by")
    source: str = result(label="Source")


@dataclass(frozen=True)
class Cheapest:
    day: str = result(label="Day")
    usd_per_mtok: float = result("$/Mtok", "Lowest price known")
    what: str = result(label="Model")


@dataclass(frozen=True)
class Fitted:
    capability: str = result(label="Capability")
    score: int = result("%", "GPQA Diamond")
    n: int = result("", "Quarters")
    since: str = result(label="Since")
    until: str = result(label="Until")
    first_usd: float = result("$/Mtok", "First")
    last_usd: float = result("$/Mtok", "Last")
    times_per_year: float = result("×/year", "Cheaper per year")
    low: float | None = result("×/year", "Low (95 %)")
    high: float | None = result("×/year", "High (95 %)")


@dataclass(frozen=True)
class Study:
    number: int = result(label="No.")
    study: str = result(label="Study")
    published: str = result(label="Published")
    capability: str = result(label="Capability")
    low: float | None = result("×/year", "Low")
    middle: float | None = result("×/year", "Middle")
    high: float | None = result("×/year", "High")
    meaning: str = result(label="Meaning")
    source: str = result(label="Source")


@dataclass(frozen=True)
class Outputs:
    times_per_year: float = result(
        "×/year", "Cheaper per year", "How many times; below 1 it became dearer.", decimals=2
    )
    low: float | None = result("×/year", "Low (95 %)", "By the scatter around the line.", decimals=2)
    high: float | None = result("×/year", "High (95 %)", decimals=2)
    halving_months: float | None = result("months", "Time to half the price", decimals=1)
    r_squared: float | None = result("", "R²", decimals=3)
    n: int = result("", "Prices", "Of the fit: one a quarter.")
    published_low: float = result("×/year", "Lowest published", "Over the studies below that find a fall.")
    published_high: float = result("×/year", "Highest published")
    spend_change: float = result("×", "The bill a year later", "Growth of use / fall of the price.", decimals=2)
    spend_then_usd_per_month: float = result("$/month", "Spend then", "After the years ahead.", better="lower")
    price_change: float = result("×", "Price then", "Of today's, after the years ahead.", better="lower")
    prices: tuple[Cheapest, ...] = result(label="Prices of the fit", default=())
    capabilities: tuple[Fitted, ...] = result(label="Every capability, fitted", default=())
    studies: tuple[Study, ...] = result(label="Published analyses", default=())
    points: tuple[Point, ...] = result(label="Listings at or above the capability", default=())


@cache
def studies() -> tuple[Study, ...]:
    with DATA.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    return tuple(
        Study(number, row["study"], row["published"], row["capability"], _number(row["low"]), _number(row["middle"]),
              _number(row["high"]), row["meaning"], row["source"])
        for number, row in enumerate(rows, start=1)
    )  # fmt: skip


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


@cache
def fitted(kind: Kind) -> tuple[Fitted, ...]:
    """The trend of every capability."""
    found = []
    for capability in Capability:
        kept = steps(capable(capability.score), kind)
        line = trend.fit([(step.day, step.usd_per_mtok) for step in kept], serial=True)
        ends = kept[0].day.isoformat(), kept[-1].day.isoformat(), kept[0].usd_per_mtok, kept[-1].usd_per_mtok
        found.append(Fitted(capability, capability.score, line.n, *ends, line.times_per_year, line.low, line.high))
    return tuple(found)


@refusing
def compute(inputs: Inputs) -> Outputs:
    own = _own(inputs)
    prices = own or _history(inputs)
    found = trend.fit([(date.fromisoformat(item.day), item.usd_per_mtok) for item in prices], serial=not own)
    falls = [rate for study in studies() if study.meaning == "falling"
             for rate in (study.low, study.middle, study.high) if rate is not None]  # fmt: skip
    change = trend.spend_change(found.times_per_year, inputs.times_more_tokens)
    return Outputs(
        times_per_year=found.times_per_year,
        low=found.low,
        high=found.high,
        halving_months=found.halving_months,
        r_squared=found.r_squared,
        n=found.n,
        published_low=min(falls),
        published_high=max(falls),
        spend_change=change,
        spend_then_usd_per_month=inputs.spend_usd_per_month * change**inputs.years,
        price_change=1 / found.times_per_year**inputs.years,
        prices=prices,
        points=() if own else _listings(inputs),
        capabilities=fitted(inputs.price),
        studies=studies(),
    )


def _own(inputs: Inputs) -> tuple[Cheapest, ...]:
    """Prices that were given, oldest first."""
    days = [day.strip() for day in inputs.days.split(",") if day.strip()]
    if len(days) != len(inputs.usd_per_mtok):
        problem = f"{len(days)} days and {len(inputs.usd_per_mtok)} prices."
        raise refuse("usd_per_mtok", problem, "Give one price for each day.")
    try:
        days = [date.fromisoformat(day).isoformat() for day in days]
    except ValueError as error:
        raise refuse("days", f"{error}.", "Write days as 2023-03-14.") from None
    return tuple(Cheapest(day, usd, "as given") for day, usd in sorted(zip(days, inputs.usd_per_mtok, strict=True)))


def _history(inputs: Inputs) -> tuple[Cheapest, ...]:
    found = steps(capable(inputs.capability.score), inputs.price)
    return tuple(Cheapest(step.day.isoformat(), step.usd_per_mtok, step.listing.words) for step in found)


def _listings(inputs: Inputs) -> tuple[Point, ...]:
    return tuple(
        Point(item.day.isoformat(), item.usd_per_mtok(inputs.price), item.score, item.words, item.dated_by, item.source)
        for item in capable(inputs.capability.score)
    )


PRICE_TREND = Calculator(
    name="price-trend",
    title="Price of a fixed capability",
    subject="Money",
    summary="How many times cheaper per year a capability becomes, by a straight line through the logarithms of its "
    "dated list prices, beside what several analyses published; and what growing use makes of the bill.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "ln p = a + b·t",
        "times per year = e^(−b)",
        "spend after t years = s·(v / times per year)^t at a price of p·(times per year)^(−t)",
    ),
    source=f"Least squares with Student's t for the slope. {len(listings())} dated list prices and the studies: each "
    "with its source below. Scores: Epoch AI's runs of GPQA Diamond.",
    assumptions=(
        "A capability costs what the cheapest listed model at or above its score costs. The fit takes that price when "
        "the capability first came up, at the beginning of each quarter since, and on the last day with new scores.",
        "Prices of neighbouring quarters are alike: the interval is widened by their correlation. It knows only the "
        "scatter around the line, not the choice of models.",
        "Introductory prices and those of long prompts are left out. A price that is dated by the release of its model "
        "is taken to have held since then.",
        "A fixed capability is what a benchmark score says; other benchmarks give other rates.",
        "Price and use go on as they did: neither drives the other.",
    ),
    symbols={"p": "price", "t": "years", "a": "intercept", "b": "slope"},
    plots=plots,
)
