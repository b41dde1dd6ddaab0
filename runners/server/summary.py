"""What the server said of itself during a stage, and whether its counts agree with ours. Pure: rows in, numbers out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Any, Self

import numpy as np
import pyarrow as pa

from runners.load.rows import MISSING, StageRows, Window
from runners.load.statistics import Bools, Ints
from runners.server.metrics import SERVER_METRICS, Kind, ServerMetric
from runners.server.series import Series, Span, bucket_increases, increase, quantile, series

_SHARES = (
    ("prefix_hit_share", "prefix_hit_tokens", "prefix_queried_tokens"),
    ("accepted_share", "accepted_tokens", "drafted_tokens"),
    ("sent_on_share", "sent_on_requests", "routed_requests"),
)
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class ServerSide:
    """All scraped rows of a run, and the scraper's account of them (docs/server-metrics.md)."""

    samples: pa.Table
    account: Mapping[str, Any]

    @classmethod
    def so_far(cls, samples: pa.Table, marks_ns: Sequence[int | None]) -> Self:
        """While the run goes on, with no account yet: gauges and counters alone."""
        return cls(samples, {"engine": "", "keys": samples["metric"].unique().to_pylist(), "marks_ns": marks_ns})

    @cached_property
    def series(self) -> dict[str, Series]:
        """Gauges, shares and counters by our key; only those that the page had."""
        kinds = {metric.key: metric.kind for metric in SERVER_METRICS}
        return {
            key: series(self.samples, key)
            for key in self.account["keys"]
            if kinds.get(key) not in (None, Kind.HISTOGRAM)
        }

    @cached_property
    def scrapes_ns(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.unique(np.asarray(self.samples["t_ns"].to_numpy(), dtype=np.int64))

    def of_stage(self, rows: StageRows, index: int, window: Window | None) -> dict[str, Any] | None:
        """The "server" account of a stage; None where the page was not read during it."""
        whole = self._whole(index)
        span = self._span(window) or whole
        if span is None:
            return None
        return {
            "engine": self.account["engine"],
            "span": {"start_ns": span.start_ns, "end_ns": span.end_ns, "seconds": span.seconds},
            "scrapes": int(((self.scrapes_ns >= span.start_ns) & (self.scrapes_ns <= span.end_ns)).sum()),
            "gauges": self._gauges(span),
            **self._counters(span),
            "histograms": self._histograms(span),
            "agreement": [] if whole is None else self._agreement(rows, whole),
        }

    def _whole(self, index: int) -> Span | None:
        """From the mark before the stage to the one after it; None when either is missing."""
        marks = self.account["marks_ns"][index : index + 2]
        return Span(*marks) if len(marks) == 2 and None not in marks else None

    def _span(self, window: Window | None) -> Span | None:
        """The outermost scrapes inside the window; None with fewer than two."""
        if window is None:
            return None
        inside = self.scrapes_ns[(self.scrapes_ns >= window.start_ns) & (self.scrapes_ns <= window.end_ns)]
        return Span(int(inside[0]), int(inside[-1])) if len(inside) > 1 else None

    def _gauges(self, span: Span) -> dict[str, Any]:
        found = {}
        for metric in SERVER_METRICS:
            if metric.kind in (Kind.GAUGE, Kind.SHARE) and metric.key in self.series:
                values = self.series[metric.key].within(span.start_ns, span.end_ns)
                if len(values):
                    found[metric.key] = {"mean": float(values.mean()), "max": float(values.max())}
        return found

    def _counters(self, span: Span) -> dict[str, Any]:
        """Growth of each counter, and shares of two of them."""
        grown = {
            metric.key: increase(self.series[metric.key], span)
            for metric in SERVER_METRICS
            if metric.kind is Kind.COUNTER and metric.key in self.series
        }
        shares = {
            name: (grown[part] or 0.0) / whole
            for name, part, of in _SHARES
            if grown.get(part) is not None and (whole := grown.get(of))
        }
        return {"counters": grown, "shares": shares}

    def _histograms(self, span: Span) -> dict[str, Any]:
        found = {}
        for metric in SERVER_METRICS:
            if metric.kind is not Kind.HISTOGRAM or metric.key not in self.account["keys"]:
                continue
            buckets = bucket_increases(self.samples, metric.key, span)
            if not buckets:
                continue
            total = increase(series(self.samples, f"{metric.key}_sum"), span)
            found[metric.key] = {
                "n": int(buckets[inf]),
                "mean": None if total is None else total / buckets[inf],
                **{name: quantile(buckets, share) for name, share in _QUANTILES.items()},
            }
        return found

    def _agreement(self, rows: StageRows, whole: Span) -> list[dict[str, Any]]:
        ours, again = _ours(rows), self._asked_again(whole)
        return [
            _compare(metric, increase(self.series[metric.key], whole), ours[metric.key], rows.ok, again)
            for metric in SERVER_METRICS
            if metric.key in ours and metric.key in self.series
        ]

    def _asked_again(self, whole: Span) -> int:
        """Requests that a router asked of one engine more, the first answer being unsure or missing."""
        asked, routed = (
            increase(self.series[key], whole) if key in self.series else None
            for key in ("upstream_requests", "routed_requests")
        )
        return round(asked - routed) if asked is not None and routed is not None else 0


def _ours(rows: StageRows) -> dict[str, Ints]:
    """By row, warm-up included: the tokens that a counter of the server counts too; MISSING where nobody told."""
    prompt, cached = rows.ints("input_tokens"), rows.ints("cached_tokens")
    known = (prompt != MISSING) & (cached != MISSING)
    return {
        "prompt_tokens": prompt,
        "computed_tokens": np.where(known, prompt - cached, MISSING),
        "cached_tokens": cached,
        "generated_tokens": rows.ints("output_tokens"),
    }


def _compare(metric: ServerMetric, server: float | None, counts: Ints, ok: Bools, asked_again: int) -> dict[str, Any]:
    """Their count over the whole stage against ours. Requests that were not sent have no part in it."""
    told = counts != MISSING
    client = int(counts[told].sum()) if told.any() else None
    difference = None if server is None or client is None else round(server) - client
    verdict, text = _judged(difference, int((~(ok & told)).sum()), asked_again)
    return {
        "key": metric.key,
        "label": metric.label,
        "server": None if server is None else round(server),
        "client": client,
        "difference": difference,
        "verdict": verdict,
        "text": text,
    }


def _judged(difference: int | None, open_ends: int, asked_again: int) -> tuple[str, str]:
    """ok, other_traffic, fewer or unknown, and words."""
    if difference is None:
        return "unknown", "one of the two did not count them"
    if difference == 0:
        return "ok", ""
    if open_ends:
        return "unknown", f"{open_ends} requests did not end well or came without a count: ours is not whole"
    if asked_again > 0:
        return "unknown", f"a router asked {asked_again} requests of one engine more, whose tokens no client saw"
    if difference > 0:
        return "other_traffic", f"the server counted {difference} more than we did: it served others meanwhile"
    return "fewer", f"the server counted {-difference} fewer: the page may be that of one replica of several"


def reasons(server: Mapping[str, Any] | None) -> list[dict[str, str]]:
    """What a stage's account warns of, once a kind."""
    found: dict[str, str] = {}
    for item in (server or {}).get("agreement", []):
        if item["verdict"] == "other_traffic":
            found.setdefault(
                "other_traffic",
                f"{item['text']} ({item['label'].lower()}: {item['server']} against {item['client']}); "
                "its numbers are those of a shared server",
            )
        elif item["verdict"] == "fewer":
            found.setdefault("server_counts_differ", f"{item['label'].lower()}: {item['text']}")
    return [{"code": code, "text": text} for code, text in found.items()]
