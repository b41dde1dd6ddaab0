"""A quality result in words and rows for the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from observatory.pages.templatetags.numbers import missing
from observatory.quality.evaluations import answers
from observatory.quality.models import QualityResult


def percent(share: float | None, low: float | None, high: float | None, n: int | None) -> SafeString:
    """Such as "62.0 % (52.2 to 70.9, n = 100)"."""
    if share is None:
        return missing("nothing was answered")
    size = format_html(", n = {}", n) if n else ""
    if low is None or high is None:
        between = format_html(" <small class='muted'>no interval{}</small>", size)
    else:
        between = format_html(
            ' <small class="muted nowrap">({} to {}{})</small>', f"{100 * low:.1f}", f"{100 * high:.1f}", size
        )
    return format_html(
        '<span class="number measured">{}<span class="unit"> %</span></span>{}', f"{100 * share:.1f}", between
    )


@dataclass(frozen=True)
class Part:
    """A line of the score table; ``group`` is "kind", "topic" or nothing for all."""

    name: str
    group: str
    accuracy: SafeString
    right: str
    unanswered: int
    unreadable: int


def parts(result: QualityResult) -> list[Part]:
    """All, then by kind, then by topic; of an invalid or partial evaluation as well."""
    summary: Mapping[str, Any] = result.summary or (result.job.summary if result.job else None) or {}
    score = summary.get("score")
    if not score:
        return []
    named = [("All tasks", "", score["overall"])]
    named += [(name, group[:-1], part) for group in ("kinds", "topics") for name, part in score[group].items()]
    return [
        Part(
            name,
            group,
            percent(part["share"], part["low"], part["high"], None),
            f"{part['count']} of {part['n']}",
            part["unanswered"],
            part["unreadable"],
        )
        for name, group, part in named
    ]


_ANSWER_COLUMNS = ("id", "kind", "topic", "outcome", "answer", "expected", "found", "by", "correct")


def answer_rows(result: QualityResult) -> list[dict[str, Any]]:
    """A row a task; ``note`` says what is worth a look: wrong, unanswered, or another answer than the reference's."""
    own = _rows(result)
    theirs = {row["id"]: row for row in _rows(result.reference)} if result.reference else {}
    return [row | _against(row, theirs.get(row["id"])) for row in own]


def _rows(result: QualityResult | None) -> Sequence[dict[str, Any]]:
    table = answers(result) if result else None
    rows: list[dict[str, Any]] = [] if table is None else table.select(list(_ANSWER_COLUMNS)).to_pylist()
    return rows


def _against(row: Mapping[str, Any], other: Mapping[str, Any] | None) -> dict[str, Any]:
    notes = [] if row["correct"] else ["unanswered" if row["correct"] is None else "wrong"]
    if other is not None and other["answer"] is not None and row["answer"] is not None:
        if bool(other["correct"]) != bool(row["correct"]):
            notes = ["right to wrong" if other["correct"] else "wrong to right"]
        elif other["answer"] != row["answer"]:
            notes.append("another text")
    return {"reference": other["answer"] if other else None, "note": ", ".join(notes)}
