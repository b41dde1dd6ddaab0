"""Scraped rows as series over time, and the differences between two moments of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from runners.server.exposition import labels_of
from runners.server.metrics import BY_KEY, Kind

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One number over time, ascending; workers and ranks are added up, shares averaged."""

    t_ns: Ints
    values: Floats

    def within(self, start_ns: int, end_ns: int) -> Floats:
        return self.values[(self.t_ns >= start_ns) & (self.t_ns <= end_ns)]

    def at(self, t_ns: int) -> float | None:
        """The value of the scrape of that very time."""
        found = np.flatnonzero(self.t_ns == t_ns)
        return float(self.values[found[0]]) if len(found) else None


@dataclass(frozen=True)
class Span:
    """Between two scrapes."""

    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


def series(table: pa.Table, metric: str) -> Series:
    """Of a row key; empty when it was never on the page."""
    rows = table.filter(pc.equal(table["metric"], metric))
    kind = BY_KEY[metric].kind if metric in BY_KEY else Kind.HISTOGRAM
    how = "mean" if kind is Kind.SHARE else "sum"
    grouped = rows.group_by("t_ns").aggregate([("value", how)]).sort_by("t_ns")
    values = np.asarray(grouped[f"value_{how}"].to_numpy(), dtype=np.float64)
    return Series(np.asarray(grouped["t_ns"].to_numpy(), dtype=np.int64), values)


def increase(found: Series, span: Span) -> float | None:
    """How much a counter grew over the span; missing when it was not on the page at both ends, or began anew between.

    A counter without a series yet is not on the page: an engine that names it only after its first use has none to
    subtract from.
    """
    first, last = found.at(span.start_ns), found.at(span.end_ns)
    inside = found.within(span.start_ns, span.end_ns)
    if first is None or last is None or (np.diff(inside) < 0).any():
        return None
    return last - first


def bucket_increases(table: pa.Table, key: str, span: Span) -> Mapping[float, float]:
    """Upper bound to how many more values lay at or below it, ascending; empty where there is nothing to tell."""
    rows = table.filter(pc.equal(table["metric"], f"{key}_bucket"))
    found: dict[float, float] = {}
    for sign, t_ns in ((-1, span.start_ns), (1, span.end_ns)):
        for row in rows.filter(pc.equal(rows["t_ns"], t_ns)).to_pylist():
            bound = float(labels_of(row["labels"]).get("le", "nan").replace("Inf", "inf"))
            found[bound] = found.get(bound, 0.0) + sign * row["value"]
    ascending = {bound: found[bound] for bound in sorted(found)}
    counts = list(ascending.values())
    sound = inf in ascending and counts[-1] > 0 and all(a <= b for a, b in zip([0.0, *counts], counts, strict=False))
    return ascending if sound else {}


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """As ``histogram_quantile`` of Prometheus: linear within a bucket, the first from 0; missing in the open one."""
    wanted, lower, before = share * buckets[inf], 0.0, 0.0
    for bound, count in buckets.items():
        if count >= wanted and count > before:
            return None if bound == inf else lower + (bound - lower) * (wanted - before) / (count - before)
        lower, before = bound, count
    return None
