"""The plots of ``price-trend``."""

from collections.abc import Sequence
from datetime import date
from typing import Any

from observatory.theory.accounts import trend
from observatory.theory.calculator import Axis, Line, Plot

_STEPS = 40


def plots(inputs: Any, outputs: Any) -> tuple[Plot, ...]:
    return (
        _prices(outputs),
        _capabilities(outputs.capabilities),
        _published(outputs.studies),
        _spend_against_price(inputs, outputs),
        _over_years(inputs, outputs),
    )


def _prices(outputs: Any) -> Plot:
    """The lowest price through time, the line through it, and every listed model of the capability."""
    first = date.fromisoformat(outputs.prices[0].day)
    found = trend.fit([(date.fromisoformat(item.day), item.usd_per_mtok) for item in outputs.prices])
    times = _years(first, outputs.prices)
    grid = tuple(times[-1] * step / _STEPS for step in range(_STEPS + 1))
    line = tuple(found.start_usd / found.times_per_year**year for year in grid)
    listed = tuple(item.usd_per_mtok for item in outputs.points)
    lines = (
        *([Line("listed models", _years(first, outputs.points), listed, points=True)] if outputs.points else []),
        Line("lowest price", times, tuple(item.usd_per_mtok for item in outputs.prices), points=True),
        Line("fit", grid, line, dashed=True),
    )
    x, y = Axis(f"Since {first}", "years"), Axis("Price", "$/Mtok", "lower")
    return Plot("Prices of the capability", x, y, lines)


def _years(first: date, points: Sequence[Any]) -> tuple[float, ...]:
    return tuple((date.fromisoformat(point.day) - first).days / trend.DAYS_PER_YEAR for point in points)


def _capabilities(found: Sequence[Any]) -> Plot:
    scores = tuple(float(item.score) for item in found)
    x, y = Axis("GPQA Diamond, at least", "%", from_zero=False), Axis("Cheaper per year", "×")
    return Plot("Fall by capability, with 95 % intervals", x, y, _bounds(scores, found, "times_per_year"))


def _published(found: Sequence[Any]) -> Plot:
    """Low, middle and high of each study that finds a fall, by its number in the table."""
    falling = [study for study in found if study.meaning == "falling"]
    x, y = Axis("Study, by its number in the table"), Axis("Cheaper per year", "×")
    lines = _bounds(tuple(float(study.number) for study in falling), falling, "middle")
    return Plot("Published: times cheaper per year", x, y, lines)


def _bounds(xs: tuple[float, ...], found: Sequence[Any], middle: str) -> tuple[Line, ...]:
    names = {"low": "low", "middle": middle, "high": "high"}
    return tuple(
        Line(label, xs, tuple(getattr(item, name) for item in found), points=True) for label, name in names.items()
    )


def _rates(outputs: Any) -> dict[str, float]:
    """How many times cheaper a year, by the fit and by the ends of its interval and of what was published."""
    rates = {"fit": outputs.times_per_year, "low (95 %)": outputs.low, "high (95 %)": outputs.high,
             "lowest published": outputs.published_low, "highest published": outputs.published_high}  # fmt: skip
    return {label: rate for label, rate in rates.items() if rate is not None}


def _spend_against_price(inputs: Any, outputs: Any) -> Plot:
    """The way that price and spend take together over the years ahead; it begins at today's, on the right."""
    usd = outputs.prices[-1].usd_per_mtok
    times = tuple(inputs.years * step / _STEPS for step in range(_STEPS + 1))
    lines = tuple(
        Line(
            label,
            tuple(usd / rate**t for t in times),
            tuple(inputs.spend_usd_per_month * (inputs.times_more_tokens / rate) ** t for t in times),
        )
        for label, rate in _rates(outputs).items()
    )
    x, y = Axis("Price", "$/Mtok"), Axis("Spend", "$/month", "lower")
    note = f"Each line runs {inputs.years:g} years from today's price at its right end, at its own rate of fall."
    return Plot("Total spend against price", x, y, lines, now=usd, note=note)


def _over_years(inputs: Any, outputs: Any) -> Plot:
    times = tuple(inputs.years * step / _STEPS for step in range(_STEPS + 1))
    price, use = 1 / outputs.times_per_year, inputs.times_more_tokens
    yearly = {"price": price, "tokens bought": use, "spend": outputs.spend_change}
    lines = tuple(Line(label, times, tuple(rate**t for t in times)) for label, rate in yearly.items())
    return Plot("Price, use and spend over the years", Axis("Ahead", "years"), Axis("Times today's", "×"), lines)
