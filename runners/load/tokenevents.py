"""Token events of requests, a few hundred requests at a time, and what is kept: gaps, and numbers by request."""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from runners.load.statistics import Bools, Clusters, Floats, Ints

COLUMNS = ("event_offsets_ns", "event_tokens", "event_choices")

_MULTI_TOKEN = 1.1
_EVENTS_AT_ONCE = 65_536


@dataclass(frozen=True)
class Events:
    """All token events of some requests, request by request: row number, absolute stamp, tokens that came with it, and
    the choice of each; None where no request has several. ``several`` says of each request whether it has.
    """

    rows: Ints
    stamps: Ints
    tokens: Floats
    choices: Ints | None
    several: Bools

    @cached_property
    def timelines(self) -> tuple[Ints | slice, Bools]:
        """What brings them into the order of request, choice, time; and for each but the first, whether it then
        follows another of the same choice."""
        if self.choices is None:
            return slice(None), np.diff(self.rows) == 0
        order = np.lexsort((self.stamps, self.choices, self.rows))
        return order, (np.diff(self.rows[order]) == 0) & (np.diff(self.choices[order]) == 0)


def parts(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """The batch, cut where its rows have very many events."""
    events = pc.sum(pc.list_value_length(batch["event_offsets_ns"])).as_py() or 0
    rows = max(1, batch.num_rows // (1 + events // _EVENTS_AT_ONCE))
    return [batch.slice(start, rows) for start in range(0, batch.num_rows, rows)]


def events_of(batch: pa.RecordBatch, first_row: int, sent_ns: Ints, output_tokens: Ints) -> Events:
    """``batch`` holds COLUMNS of the rows from ``first_row`` on; the arrays are those of the same rows."""
    column = batch["event_offsets_ns"]
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    own = np.repeat(np.arange(len(counts)), counts)
    stamps = _flat(column).astype(np.int64) + sent_ns[own]
    tokens = np.where(counts > 0, np.maximum(output_tokens, 0) / np.maximum(counts, 1), 0.0)[own]
    told = _valid(batch["event_tokens"])
    tokens[told[own]] = _flat(batch["event_tokens"])
    has_choices, choices = _valid(batch["event_choices"]), None
    if has_choices.any():
        choices = np.zeros(len(own), dtype=np.int64)
        choices[has_choices[own]] = _flat(batch["event_choices"])
    return Events(own + first_row, stamps, tokens, choices, has_choices)


def _flat(column: pa.Array) -> NDArray[np.int64]:
    return np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False))


def _valid(column: pa.Array) -> Bools:
    return np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), dtype=np.bool_)


@dataclass(frozen=True)
class Gaps:
    """Between consecutive token events, in milliseconds; the clusters are their requests."""

    event_ms: Floats
    event_clusters: Clusters
    token_ms: Floats
    token_clusters: Clusters
    same_read_share: float | None


@dataclass
class Streams:
    """What ``add`` keeps of the events of ``count`` requests: two numbers of each request, and gaps of the ``good``."""

    count: int
    good: Bools
    any: bool = False
    same_read: int = 0
    event_ms: "array[float]" = field(default_factory=lambda: array("d"))
    #: Apart only where an event had several tokens.
    token_ms: "array[float] | None" = None

    def __post_init__(self) -> None:
        self.several: Bools | None = None  # requests with several choices
        self._first_tokens, self.summed_ms = np.zeros(self.count), np.zeros(self.count)
        self._of_events = self._of_tokens = Clusters(np.zeros(self.count), np.zeros(self.count))

    def add(self, events: Events, first_row: int, rows: int) -> None:
        """The events of ``rows`` requests from ``first_row`` on."""
        if not len(events.rows):
            return
        self.any = True
        own = slice(first_row, first_row + rows)
        order, inner = events.timelines
        at, stamps, tokens = events.rows[order] - first_row, events.stamps[order], events.tokens[order]
        begins = np.concatenate(([True], ~inner))
        with_first = stamps == stamps[begins][np.cumsum(begins) - 1]
        counted = np.where(tokens > _MULTI_TOKEN, tokens, 1.0) * with_first
        self._first_tokens[own] = np.bincount(at, weights=counted, minlength=rows)
        gaps_ms = np.diff(stamps) / 1e6
        if events.choices is not None:
            self.several = np.zeros(self.count, dtype=np.bool_) if self.several is None else self.several
            self.several[own] = events.several
            self.summed_ms[own] = np.bincount(at[1:][inner], weights=gaps_ms[inner], minlength=rows)
        kept = inner & self.good[own][at[1:]]
        self._keep(gaps_ms[kept], tokens[1:][kept], at[1:][kept], own)

    def _keep(self, gaps_ms: Floats, tokens: Floats, at: Ints, own: slice) -> None:
        """An event of k tokens is one event gap and k token gaps of a k-th each."""
        many = tokens > _MULTI_TOKEN
        if many.any() and self.token_ms is None:
            self.token_ms, self._of_tokens = self.event_ms[:], self._of_events.copy()
        self.same_read += int((gaps_ms == 0).sum())
        self.event_ms.frombytes(gaps_ms.tobytes())
        self._of_events.add(own, at, gaps_ms)
        if self.token_ms is not None:
            each_ms = np.where(many, gaps_ms / np.where(many, tokens, 1.0), gaps_ms)
            repeats = np.where(many, np.maximum(np.rint(tokens), 1), 1).astype(np.int64)
            each_ms = np.repeat(each_ms, repeats)
            self.token_ms.frombytes(each_ms.tobytes())
            self._of_tokens.add(own, np.repeat(at, repeats), each_ms)

    @property
    def first_tokens(self) -> Floats:
        """Tokens that came with the first read of each choice's stream, added up; an event counts as one token unless
        the server tells, or sends clearly more tokens than events."""
        return self._first_tokens if self.any else np.ones(self.count)

    @cached_property
    def gaps(self) -> Gaps:
        event_ms = np.frombuffer(self.event_ms)
        token_ms = event_ms if self.token_ms is None else np.frombuffer(self.token_ms)
        same = self.same_read / len(event_ms) if len(event_ms) else None
        return Gaps(event_ms, self._of_events, token_ms, self._of_tokens, same)


def joined(parts: Iterable[Events]) -> tuple[Ints, Ints, Floats]:
    """Row numbers, stamps and tokens of all."""
    found = [(part.rows, part.stamps, part.tokens) for part in parts]
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    rows, stamps, tokens = (np.concatenate(column) for column in zip(*found, strict=True))
    return rows, stamps, tokens
