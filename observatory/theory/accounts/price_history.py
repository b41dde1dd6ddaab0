"""Dated list prices of token APIs with what the models scored, and what a fixed capability has cost since.

A capability is a score on GPQA Diamond as Epoch AI measured it, at the best setting of the model. What it costs on a
day is the lowest price of any listed model at or above that score.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data" / "price_history.csv"


class Kind(StrEnum):
    """Which tokens the price is of. ``blend``: three of input to one of output."""

    OUTPUT = "output"
    INPUT = "input"
    BLEND = "blend"


class DatedBy(StrEnum):
    """What is known of the day: the model came out, its price changed, it was in the list, a price still held, or the
    cheapest provider asked so much at the end of that month.
    """

    RELEASE = "release"
    CHANGE = "change"
    LISTED = "listed"
    LAST_DAY = "last day"
    INTRODUCTORY = "introductory"
    MONTH = "month"


@dataclass(frozen=True)
class Listing:
    """A model's price of a day. ``above_tokens``: of prompts longer than that; ``score`` None: not measured."""

    vendor: str
    model: str
    setting: str
    day: date
    dated_by: DatedBy
    input_usd: float
    output_usd: float
    above_tokens: int | None
    score: float | None
    source: str

    def usd_per_mtok(self, kind: Kind) -> float:
        if kind is Kind.BLEND:
            return (3 * self.input_usd + self.output_usd) / 4
        return self.output_usd if kind is Kind.OUTPUT else self.input_usd

    @property
    def words(self) -> str:
        return f"{self.model} ({self.setting})" if self.setting else self.model


@cache
def listings() -> tuple[Listing, ...]:
    """All of them, oldest first."""
    with DATA.open(newline="", encoding="utf-8") as file:
        return tuple(_listing(row) for row in csv.DictReader(file, strict=True))


def _listing(row: dict[str, str]) -> Listing:
    return Listing(
        row["vendor"],
        row["model"],
        row["setting"],
        date.fromisoformat(row["day"]),
        DatedBy(row["dated_by"]),
        float(row["input_usd"]),
        float(row["output_usd"]),
        int(row["above_tokens"]) if row["above_tokens"] else None,
        float(row["gpqa_diamond"]) if row["gpqa_diamond"] else None,
        "; score: ".join(filter(None, (row["source"], row["score_source"]))),
    )


def capable(score: float) -> tuple[Listing, ...]:
    """Regular prices of models at or above a score, oldest first."""
    return tuple(
        item
        for item in listings()
        if item.score is not None and item.score >= score
        and item.above_tokens is None and item.dated_by is not DatedBy.INTRODUCTORY
    )  # fmt: skip


@dataclass(frozen=True)
class Step:
    """The lowest price of a capability that was known on a day, and whose it was."""

    day: date
    usd_per_mtok: float
    listing: Listing


def steps(found: Sequence[Listing], kind: Kind) -> tuple[Step, ...]:
    """What the capability cost when it first came up, at the beginning of each quarter since, and on the last day that
    models were scored. ``found`` must not be empty.
    """
    begin, end = found[0].day, _last_scored()
    days = sorted({begin, *(day for day in _quarters(begin.year, end.year) if begin < day < end), max(begin, end)})
    return tuple(_step(found, kind, day) for day in days)


def _step(found: Sequence[Listing], kind: Kind, day: date) -> Step:
    cheapest = min((item for item in found if item.day <= day), key=lambda item: item.usd_per_mtok(kind))
    return Step(day, cheapest.usd_per_mtok(kind), cheapest)


def _quarters(first: int, last: int) -> list[date]:
    return [date(year, month, 1) for year in range(first, last + 1) for month in (1, 4, 7, 10)]


@cache
def _last_scored() -> date:
    """The release of the newest model with a score: what came later is not seen."""
    return max(item.day for item in listings() if item.score is not None and item.dated_by is DatedBy.RELEASE)
