"""How fast the price of a fixed capability falls."""

import csv
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from observatory.theory.accounts import trend
from observatory.theory.accounts.calculators.frame import refusing
from observatory.theory.calculator import Axis, Calculator, Line, Plot, refuse
from observatory.theory.fields import number, result, series, text

DATA = Path(__file__).resolve().parents[2] / "data"


@dataclass(frozen=True)
class Inputs:
    days: str = text("", "Days", "As 2023-03-14, with commas between. Empty: the history below.", longest=2000)
    usd_per_mtok: tuple[float, ...] = series((), "$/Mtok", "Prices", "One for each day.", low=1e-9, high=1e9)
    times_more_tokens: float = number(
        10, "×", "Growth of use", "How many times more tokens are bought a year later.", low=0, high=1e6, symbol="v"
    )


@dataclass(frozen=True)
class Point:
    day: str = result(label="Day")
    usd_per_mtok: float = result("$/Mtok", "Price")
    what: str = result(label="What")
    source: str = result(label="Source")


@dataclass(frozen=True)
class Study:
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
    n: int = result("", "Prices")
    spend_change: float = result("×", "The bill a year later", "Growth of use / fall of the price.", decimals=2)
    published_low: float = result("×/year", "Lowest published", "Over the studies below that find a fall.")
    published_high: float = result("×/year", "Highest published")
    points: tuple[Point, ...] = result(label="Prices of the fit", default=())
    studies: tuple[Study, ...] = result(label="Published analyses", default=())


@cache
def studies() -> tuple[Study, ...]:
    return tuple(
        Study(row["study"], row["published"], row["capability"], _number(row["low"]), _number(row["middle"]),
              _number(row["high"]), row["meaning"], row["source"])
        for row in _rows("price_trends.csv")
    )  # fmt: skip


@cache
def history() -> tuple[Point, ...]:
    return tuple(
        Point(row["day"], float(row["usd_per_mtok"]), row["what"], row["source"]) for row in _rows("price_history.csv")
    )


def _rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, strict=True))


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


@refusing
def compute(inputs: Inputs) -> Outputs:
    points = _points(inputs)
    found = trend.fit([(date.fromisoformat(point.day), point.usd_per_mtok) for point in points])
    falls = [rate for study in studies() if study.meaning == "falling"
             for rate in (study.low, study.middle, study.high) if rate is not None]  # fmt: skip
    return Outputs(
        times_per_year=found.times_per_year,
        low=found.low,
        high=found.high,
        halving_months=found.halving_months,
        r_squared=found.r_squared,
        n=found.n,
        spend_change=trend.spend_change(found.times_per_year, inputs.times_more_tokens),
        published_low=min(falls),
        published_high=max(falls),
        points=points,
        studies=studies(),
    )


def _points(inputs: Inputs) -> tuple[Point, ...]:
    days = [day.strip() for day in inputs.days.split(",") if day.strip()]
    if not days and not inputs.usd_per_mtok:
        return history()
    if len(days) != len(inputs.usd_per_mtok):
        problem = f"{len(days)} days and {len(inputs.usd_per_mtok)} prices."
        raise refuse("usd_per_mtok", problem, "Give one price for each day.")
    try:
        days = [date.fromisoformat(day).isoformat() for day in days]
    except ValueError as error:
        raise refuse("days", f"{error}.", "Write days as 2023-03-14.") from None
    return tuple(Point(day, usd, "", "as given") for day, usd in zip(days, inputs.usd_per_mtok, strict=True))


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    days = [date.fromisoformat(point.day) for point in outputs.points]
    first = min(days)
    years = [(day - first).days / trend.DAYS_PER_YEAR for day in days]
    start = trend.fit([(day, point.usd_per_mtok) for day, point in zip(days, outputs.points, strict=True)]).start_usd
    grid = [max(years) * step / 40 for step in range(41)]
    fitted = Line("fit", tuple(grid), tuple(start / outputs.times_per_year**year for year in grid), dashed=True)
    order = sorted(range(len(days)), key=years.__getitem__)
    prices = Line("prices", tuple(years[i] for i in order), tuple(outputs.points[i].usd_per_mtok for i in order))
    bands = [study for study in outputs.studies if study.meaning == "falling"]
    ranges = Line("middle of what was published", tuple(f"{study.study}: {study.capability}" for study in bands),
                  tuple(study.middle for study in bands))  # fmt: skip
    return (
        Plot("Prices of the capability", Axis(f"Years since {first}", "years"), Axis("Price", "$/Mtok", "lower"),
             (prices, fitted)),
        Plot("Published: times cheaper per year", Axis("Study"), Axis("Cheaper per year", "×"), (ranges,), bars=True),
    )  # fmt: skip


PRICE_TREND = Calculator(
    name="price-trend",
    title="Price of a fixed capability",
    subject="Money",
    summary="How many times cheaper per year, by a straight line through the logarithms of dated prices, beside what "
    "several analyses published, and what growing use makes of the bill.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("ln p = a + b·t", "times per year = e^(−b)", "bill = v / times per year"),
    source="Least squares with Student's t for the slope. Studies and prices: each with its source below.",
    assumptions=(
        "A fixed capability is what a benchmark score says; other benchmarks give other rates.",
        "The interval knows only the scatter around the line, not the choice of models.",
    ),
    symbols={"p": "price", "t": "years", "a": "intercept", "b": "slope"},
    plots=_plots,
)
