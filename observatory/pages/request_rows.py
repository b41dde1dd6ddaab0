"""Raw request rows for the Requests tab: filtered, paged, with the times that people ask for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runners.load.energy_use import requests_j
from runners.load.rows import StageRows

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
    "energy_j",
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


def page(
    rows: pa.Table | None, stage: int | None, query: Mapping[str, str], summary: Mapping[str, Any] | None = None
) -> Page | None:
    """``query``: ``page`` from 1, ``outcome`` to filter by. All stages when ``stage`` is None; None without rows.

    ``summary``: that of the run, for the energy of each request (J), modelled.
    """
    if rows is None:
        return None
    kept = rows if stage is None else rows.filter(pc.equal(rows["stage"], stage))
    kept = kept.append_column("energy_j", pa.array(_energies_j(kept, stage, summary or {}), pa.float64()))
    start_ns = pc.min(kept["sent_ns"]).as_py()
    counts = {item["values"]: item["counts"] for item in pc.value_counts(kept["outcome"]).to_pylist()}
    outcome = query.get("outcome", "")
    outcome = outcome if outcome in counts else ""
    if outcome:
        kept = kept.filter(pc.equal(kept["outcome"], outcome))
    pages = max(1, -(-kept.num_rows // PAGE_ROWS))
    asked = query.get("page", "")
    number = min(pages, max(1, int(asked))) if asked.isdecimal() else 1
    part = kept.slice((number - 1) * PAGE_ROWS, PAGE_ROWS)
    listed = [_row(row, tpot_ms, start_ns) for row, tpot_ms in zip(part.to_pylist(), _tpots_ms(part), strict=True)]
    return Page(listed, number, pages, kept.num_rows, outcome, dict(sorted(counts.items(), key=lambda item: -item[1])))


def _energies_j(rows: pa.Table, stage: int | None, summary: Mapping[str, Any]) -> list[float | None]:
    attribution = summary.get("attribution")
    told = next((item for item in summary.get("stages") or [] if item["index"] == stage), None)
    return requests_j(rows, told, attribution) if attribution and told else [None] * rows.num_rows


def _tpots_ms(part: pa.Table) -> list[float | None]:
    """Of each row that ended well, as the statistics of the stage take it; those of the warm-up too."""
    position = part.schema.get_field_index("warmup")
    counted = part.set_column(position, part.schema.field(position), pa.array([False] * part.num_rows))
    found: list[float | None] = [None] * part.num_rows
    for value, row in zip(*StageRows(counted).tpot_ms, strict=True):
        found[int(row)] = float(value)
    return found


def _row(row: Mapping[str, Any], tpot_ms: float | None, start_ns: int | None) -> dict[str, Any]:
    sent_ms = _ms(start_ns, row["sent_ns"])
    return {
        **{name: row[name] for name in _COPIED},
        "sent_s": None if sent_ms is None else sent_ms / 1e3,
        "ttft_ms": _ms(row["sent_ns"], row["first_token_ns"]),
        "tpot_ms": tpot_ms,
        "e2e_ms": _ms(row["sent_ns"], row["last_token_ns"]),
    }


def _ms(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / _NS_PER_MS
