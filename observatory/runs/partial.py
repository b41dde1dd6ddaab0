"""A summary of the rows that an interrupted run left: counts by outcome, and no statistics."""

from collections import Counter
from typing import Any

import pyarrow as pa

from runners.load.outcomes import Outcome
from runners.metrics import DEFINITIONS_VERSION


def partial_summary(requests: pa.Table, spec: dict[str, Any]) -> dict[str, Any]:
    """``requests`` has the columns of ``runners.load.records``; the result has the shape of docs/result-files.md."""
    kind = "concurrency" if spec["load"]["arrivals"] == "closed" else "rate"
    counts: dict[int, Counter[str]] = {}
    for row in requests.select(["stage", "outcome", "warmup"]).to_pylist():
        if not row["warmup"]:
            counts.setdefault(row["stage"], Counter())[row["outcome"]] += 1
    return {
        "definitions_version": DEFINITIONS_VERSION,
        "valid": False,
        "reasons": [{"code": "interrupted", "text": "The run did not reach its end; these are the rows kept."}],
        "spec": spec,
        "stages": [
            _stage(index, {"kind": kind, "value": spec["load"]["levels"][index]}, counts[index])
            for index in sorted(counts)
        ],
    }


def _stage(index: int, load: dict[str, Any], outcomes: Counter[str]) -> dict[str, Any]:
    ends = {Outcome.OK, Outcome.CANCELLED, Outcome.NOT_SENT}
    return {
        "index": index,
        "load": load,
        "verdict": "interrupted",
        "planned": outcomes.total(),
        "ok": outcomes[Outcome.OK],
        "failed": sum(count for outcome, count in outcomes.items() if outcome not in ends),
        "cancelled": outcomes[Outcome.CANCELLED],
        "not_sent": outcomes[Outcome.NOT_SENT],
        "failures": {
            outcome: {"count": count, "example": ""} for outcome, count in outcomes.items() if outcome not in ends
        },
        "metrics": {},
    }
