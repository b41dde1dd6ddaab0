"""One stage's rows as arrays, and what follows from them: window, latencies, tokens by their stamps."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from runners.load.outcomes import Outcome
from runners.load.statistics import Floats

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MISSING = -1
_MULTI_TOKEN = 1.1


@dataclass(frozen=True)
class Window:
    """``steady``: at load and still sending. ``whole``: from the first send to the last end."""

    kind: str
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    def holds(self, stamps: Ints) -> Bools:
        return (stamps >= self.start_ns) & (stamps <= self.end_ns)


@dataclass(frozen=True)
class Gaps:
    """Between consecutive token events: seconds are milliseconds here, ``clusters`` number the request."""

    event_ms: Floats
    token_ms: Floats
    clusters: Ints
    same_read_share: float | None


class StageRows:
    """All rows of one stage, warm-up included; ``measured`` picks the planned ones."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def ints(self, name: str) -> Ints:
        """An integer column; MISSING (-1) where it is null."""
        column = pc.fill_null(self.table.column(name).cast(pa.int64()), MISSING)
        return np.asarray(column.to_numpy(), dtype=np.int64)

    @cached_property
    def measured(self) -> Bools:
        return np.asarray(pc.invert(self.table.column("warmup")).to_numpy(), dtype=np.bool_)

    @cached_property
    def outcome(self) -> NDArray[np.str_]:
        return np.asarray(self.table.column("outcome").to_pylist(), dtype=np.str_)

    @cached_property
    def ok(self) -> Bools:
        return np.asarray(self.outcome == str(Outcome.OK), dtype=np.bool_)

    @cached_property
    def good(self) -> Bools:
        """Planned and ended well: what latency statistics are made of."""
        return self.measured & self.ok

    @cached_property
    def sent_ns(self) -> Ints:
        return self.ints("sent_ns")

    @cached_property
    def end_ns(self) -> Ints:
        return self.ints("end_ns")

    def between_ms(self, start: str, end: str, *, within: Bools | None = None) -> tuple[Floats, Ints]:
        """Milliseconds from one stamp to another for good requests that have both, and their row numbers."""
        first, last = self.ints(start), self.ints(end)
        rows = np.flatnonzero((self.good if within is None else within) & (first != MISSING) & (last != MISSING))
        return (last[rows] - first[rows]) / 1e6, rows

    @cached_property
    def first_event_tokens(self) -> Ints:
        """Tokens of each request's first token event; 1 where the server does not tell."""
        lists = self.table.column("event_tokens").to_pylist()
        return np.array([tokens[0] if tokens else 1 for tokens in lists], dtype=np.int64)

    @cached_property
    def tpot_ms(self) -> tuple[Floats, Ints]:
        """(last token - first token) / (tokens - tokens of the first event), and row numbers; missing below one."""
        span_ms, rows = self.between_ms("first_token_ns", "last_token_ns")
        after_first = self.ints("output_tokens")[rows] - self.first_event_tokens[rows]
        known = after_first >= 1
        return span_ms[known] / after_first[known], rows[known]

    @cached_property
    def token_events(self) -> tuple[Ints, Ints, Floats]:
        """Of all token events of ok requests, warm-up too: row number, absolute stamp, tokens that came with it."""
        column = self.table.column("event_offsets_ns").combine_chunks()
        lists = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        counts = np.nan_to_num(np.asarray(lists, dtype=np.float64)).astype(np.int64)
        stamps = np.asarray(pc.list_flatten(column).to_numpy(zero_copy_only=False), dtype=np.int64)
        rows = np.repeat(np.arange(len(counts)), counts)
        stamps = stamps + self.sent_ns[rows]
        output = self.ints("output_tokens")
        mean_tokens = np.where(counts > 0, np.maximum(output, 0) / np.maximum(counts, 1), 0.0)
        tokens = mean_tokens[rows]
        told = pc.list_flatten(self.table.column("event_tokens").combine_chunks()).to_numpy(zero_copy_only=False)
        has_told = np.asarray(pc.is_valid(self.table.column("event_tokens")).to_numpy(), dtype=np.bool_)
        tokens[has_told[rows]] = told
        return rows, stamps, tokens

    def output_tokens_in(self, window: Window) -> float:
        rows, stamps, tokens = self.token_events
        inside = window.holds(stamps) & self.ok[rows]
        whole = self.ok & (self.ints("events") == 0) & window.holds(self.ints("last_token_ns"))
        return float(tokens[inside].sum() + np.maximum(self.ints("output_tokens")[whole], 0).sum())

    def input_tokens_in(self, window: Window) -> float:
        first = self.ints("first_token_ns")
        first = np.where(first == MISSING, self.ints("last_token_ns"), first)
        inside = self.ok & window.holds(first)
        return float(np.maximum(self.ints("input_tokens")[inside], 0).sum())

    def ended_in(self, window: Window) -> Bools:
        return self.ok & window.holds(self.end_ns)

    @cached_property
    def gaps(self) -> Gaps:
        """Gaps of good requests. An event of k tokens is one event gap and k token gaps of a k-th each."""
        rows, stamps, tokens = self.token_events
        keep = self.good[rows]
        rows, stamps, tokens = rows[keep], stamps[keep], tokens[keep]
        inner = rows[1:] == rows[:-1]
        event_ms, clusters = (np.diff(stamps) / 1e6)[inner], rows[1:][inner]
        per_event = tokens[1:][inner]
        many = per_event > _MULTI_TOKEN
        token_ms = np.where(many, event_ms / np.where(many, per_event, 1.0), event_ms)
        repeats = np.where(many, np.maximum(np.rint(per_event), 1), 1).astype(np.int64)
        same = float((event_ms == 0).mean()) if len(event_ms) else None
        return Gaps(event_ms, np.repeat(token_ms, repeats), np.repeat(clusters, repeats), same)

    @cached_property
    def event_clusters(self) -> Ints:
        rows = self.token_events[0]
        rows = rows[self.good[rows]]
        return np.asarray(rows[1:][rows[1:] == rows[:-1]], dtype=np.int64)

    # the window

    def window(self, target: int | None) -> Window | None:
        """The steady window where there is one long enough, else the whole stage; None when nothing was sent.

        ``target``: the concurrency of a closed loop, None for an open one. Steady: from when the target was first in
        flight after the warm-up until the last send, of the shard whose last send came first where there are several;
        it must be twice the median latency or longer and hold an end.
        """
        was_sent = self.measured & (self.sent_ns != MISSING)
        sent = self.sent_ns[was_sent]
        if not len(sent):
            return None
        whole = Window("whole", int(sent.min()), int(max(self.end_ns[self.measured].max(), sent.max())))
        reached = self._reached_ns(int(sent.min()), target)
        latencies_ms, _ = self.between_ms("sent_ns", "end_ns")
        if reached is None or not len(latencies_ms):
            return whole
        shards = self.ints("shard")[was_sent]
        last_sent = min(int(sent[shards == shard].max()) for shard in np.unique(shards))
        steady = Window("steady", reached, last_sent)
        long_enough = steady.seconds >= 2 * float(np.median(latencies_ms)) / 1e3
        return steady if long_enough and self.ended_in(steady).any() else whole

    def _reached_ns(self, first_sent_ns: int, target: int | None) -> int | None:
        if target is None:
            return first_sent_ns
        was_sent = self.sent_ns != MISSING
        times = np.concatenate((self.sent_ns[was_sent], self.end_ns[was_sent]))
        steps = np.concatenate((np.ones(was_sent.sum()), -np.ones(was_sent.sum())))
        order = np.lexsort((steps, times))
        in_flight = np.cumsum(steps[order])
        reached = np.flatnonzero((in_flight >= target) & (times[order] >= first_sent_ns))
        if len(reached):
            return int(times[order][reached[0]])
        return None

    def concurrency_in(self, window: Window) -> float:
        """Sum of the time that requests were in flight inside the window / the window."""
        was_sent = self.sent_ns != MISSING
        start = np.maximum(self.sent_ns[was_sent], window.start_ns)
        end = np.minimum(self.end_ns[was_sent], window.end_ns)
        return float(np.maximum(end - start, 0).sum() / max(window.end_ns - window.start_ns, 1))
