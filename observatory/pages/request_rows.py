"""Raw request rows for the Requests tab: filtered, paged, with the times that people ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

PAGE_ROWS = 50
_NS_PER_MS = 1e6
_COPIED = (
    "stage",
    "index",
    "outcome",
    "detail",
    "flags",
    "warmup",
    "input_tokens",
    "output_tokens",
    "finish_reason",
)


@dataclass(frozen=True)
class Page:
    """``outcomes`` counts the rows of the stage by outcome, warm-up left out."""

    rows: list[dict[str, Any]]
    number: int
    pages: int
    total: int
    outcome: str
    outcomes: dict[str, int]


def first_stage(rows: pa.Table | None) -> int | None:
    if rows is None or not rows.num_rows:
        return None
    index: int = pc.min(rows["stage"]).as_py()
    return index


def page(rows: pa.Table | None, stage: int | None, query: Mapping[str, str]) -> Page | None:
    """``query``: ``page`` from 1, ``outcome`` to filter by. All stages when ``stage`` is None; None without rows."""
    if rows is None:
        return None
    kept = rows if stage is None else rows.filter(pc.equal(rows["stage"], stage))
    start_ns = pc.min(kept["sent_ns"]).as_py()
    counts = {item["values"]: item["counts"] for item in pc.value_counts(kept["outcome"]).to_pylist()}
    outcome = query.get("outcome", "")
    outcome = outcome if outcome in counts else ""
    if outcome:
        kept = kept.filter(pc.equal(kept["outcome"], outcome))
    pages = max(1, -(-kept.num_rows // PAGE_ROWS))
    asked = query.get("page", "")
    number = min(pages, max(1, int(asked))) if asked.isdecimal() else 1
    part = kept.slice((number - 1) * PAGE_ROWS, PAGE_ROWS).to_pylist()
    listed = [_row(row, start_ns) for row in part]
    return Page(listed, number, pages, kept.num_rows, outcome, dict(sorted(counts.items(), key=lambda item: -item[1])))


def _row(row: Mapping[str, Any], start_ns: int | None) -> dict[str, Any]:
    ttft_ms = _ms(row["sent_ns"], row["first_token_ns"])
    decode_ms = _ms(row["first_token_ns"], row["last_token_ns"])
    after_first = (row["output_tokens"] or 0) - 1
    sent_ms = _ms(start_ns, row["sent_ns"])
    return {
        **{name: row[name] for name in _COPIED},
        "sent_s": None if sent_ms is None else sent_ms / 1e3,
        "ttft_ms": ttft_ms,
        "tpot_ms": decode_ms / after_first if decode_ms is not None and after_first >= 1 else None,
        "e2e_ms": _ms(row["sent_ns"], row["last_token_ns"]),
    }


def _ms(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / _NS_PER_MS
