"""One stage's rows as arrays, and what follows from them: window, latencies, tokens by their stamps.

Held are the columns that hold one number a request, and of the token events the gaps alone: the events themselves are
gone through anew each time they are needed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import fsum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runners.load import tokenevents
from runners.load.outcomes import Outcome
from runners.load.rowfiles import Rows, as_rows
from runners.load.statistics import Bools, Floats, Ints
from runners.load.tokenevents import Events, Gaps, Streams, events_of

MISSING = -1

_COLUMNS = (
    "warmup",
    "outcome",
    "chain",
    "turn",
    "turns",
    "due_ns",
    "sent_ns",
    "connect_ns",
    "first_token_ns",
    "first_answer_ns",
    "last_token_ns",
    "end_ns",
    "asked_input_tokens",
    "reusable_tokens",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "reasoning_tokens",
    "events",
)


@dataclass(frozen=True)
class Window:
    """``steady``: under the asked load. ``whole``: from the first send to the last end."""

    kind: str
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9

    def holds(self, stamps: Ints) -> Bools:
        return (stamps >= self.start_ns) & (stamps <= self.end_ns)


@dataclass(frozen=True)
class Tasks:
    """``ms``: from the first send to the last token of each task that was finished."""

    started: int
    ms: Floats


@dataclass
class Remarks:
    """Flags of good rows, and of the planned rows of each other outcome how many there are and one example."""

    flags: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)


def _counted(values: pa.Array) -> dict[str, int]:
    return {item["values"]: item["counts"] for item in pc.value_counts(values).to_pylist()}


def _example(failed: pa.RecordBatch, outcome: str) -> str:
    told = failed.filter(pc.and_(pc.equal(failed["outcome"], outcome), pc.not_equal(failed["detail"], "")))
    return str(told["detail"][0]) if told.num_rows else ""


class StageRows:
    """All rows of one stage, warm-up included, or of all stages where none is named; ``measured`` picks the planned
    ones.
    """

    def __init__(self, rows: Rows | pa.Table, stage: int | None = None) -> None:
        self._rows, self._stage = as_rows(rows), stage
        self._counted: dict[Window, tuple[int, float]] = {}

    @cached_property
    def _table(self) -> pa.Table:
        return self._rows.columns([name for name in _COLUMNS if name in self._rows.schema.names], self._stage)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def of_good(self, names: Sequence[str]) -> pa.Table:
        """Columns of one number a request, of the good ones."""
        return self._table.select(list(names)).filter(pa.array(self.good))

    def ints(self, name: str) -> Ints:
        """An integer column; MISSING (-1) where it is null."""
        column = pc.fill_null(self._table.column(name).cast(pa.int64()), MISSING)
        return np.asarray(column.to_numpy(), dtype=np.int64)

    @cached_property
    def measured(self) -> Bools:
        return np.asarray(pc.invert(self._table.column("warmup")).to_numpy(), dtype=np.bool_)

    def ended(self, outcome: Outcome) -> Bools:
        found = pc.fill_null(pc.equal(self._table.column("outcome"), str(outcome)), False)
        return np.asarray(found.to_numpy(), dtype=np.bool_)

    @cached_property
    def ok(self) -> Bools:
        return self.ended(Outcome.OK)

    @cached_property
    def good(self) -> Bools:
        """Planned and ended well: what latency statistics are made of."""
        return self.measured & self.ok

    def all_known(self, name: str) -> bool:
        """Whether every ok request has this count, and there is one."""
        counts = self.ints(name)[self.ok]
        return bool(len(counts)) and bool((counts != MISSING).all())

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
    def remarks(self) -> Remarks:
        found, at = Remarks(), 0
        for batch in self._rows.batches(["outcome", "detail", "flags", "retried"], self._stage):
            own = slice(at, at := at + batch.num_rows)
            good = batch.filter(pa.array(self.good[own]))
            found.flags.update(_counted(pc.list_flatten(good["flags"])))
            found.flags["retried"] += pc.sum(good["retried"]).as_py() or 0
            failed = batch.filter(pa.array(self.measured[own] & ~self.ok[own]))
            for name, count in _counted(failed["outcome"]).items():
                found.failures[name] += count
                found.examples[name] = found.examples.get(name) or _example(failed, name)
        found.flags = +found.flags
        return found

    @cached_property
    def tpot_ms(self) -> tuple[Floats, Ints]:
        """Time that tokens after the first read took, per token, and row numbers; missing below one such token.

        (last token - first token) / (tokens - tokens that came with the first). With several choices the times of all
        are added up, and so are their tokens.
        """
        _, rows = self.between_ms("first_token_ns", "last_token_ns")
        span_ms = self.decode_ms[rows]
        after_first = self.ints("output_tokens")[rows] - self._streams.first_tokens[rows]
        known = after_first >= 1
        return span_ms[known] / after_first[known], rows[known]

    @cached_property
    def decode_ms(self) -> Floats:
        """From the first token to the last of each request, added up over its choices."""
        spans = (self.ints("last_token_ns") - self.ints("first_token_ns")) / 1e6
        several = self._streams.several
        return np.asarray(spans if several is None else np.where(several, self._streams.summed_ms, spans))

    def events(self) -> Iterator[Events]:
        """Of all rows, warm-up too, some requests at a time."""
        return (events for _, _, events in self._events())

    def _events(self) -> Iterator[tuple[int, int, Events]]:
        """With the first row and the number of rows that they are of."""
        at, output = 0, self.ints("output_tokens")
        for batch in self._rows.batches(tokenevents.COLUMNS, self._stage):
            for part in tokenevents.parts(batch):
                own = slice(at, at + part.num_rows)
                yield at, part.num_rows, events_of(part, at, self.sent_ns[own], output[own])
                at = own.stop

    @property
    def token_events(self) -> tuple[Ints, Ints, Floats]:
        """All of them at once: row number, absolute stamp, tokens that came with it."""
        return tokenevents.joined(self.events())

    @cached_property
    def _streams(self) -> Streams:
        found = Streams(len(self), self.good)
        for at, rows, events in self._events():
            found.add(events, at, rows)
        return found

    @property
    def gaps(self) -> Gaps:
        """Gaps of good requests, within one choice."""
        return self._streams.gaps

    def output_tokens_in(self, window: Window) -> float:
        whole = self.ok & (self.ints("events") == 0) & window.holds(self.ints("last_token_ns"))
        tokens = self._streamed_in(window)[1]
        return float(tokens + np.maximum(self.ints("output_tokens")[whole], 0).sum())

    def token_events_in(self, window: Window) -> int:
        """Of ok requests."""
        return self._streamed_in(window)[0]

    def _streamed_in(self, window: Window) -> tuple[int, float]:
        """Events of ok requests in the window, and the tokens that came with them."""
        if window not in self._counted:
            count, tokens = 0, [0.0]
            for events in self.events():
                inside = window.holds(events.stamps) & self.ok[events.rows]
                count += int(inside.sum())
                tokens.append(float(events.tokens[inside].sum()))
            self._counted[window] = count, fsum(tokens)
        return self._counted[window]

    def input_tokens_in(self, window: Window) -> float:
        """Prompt tokens of ok requests, by the share of their time to the first token inside the window."""
        first = self.ints("first_token_ns")
        first = np.where(first == MISSING, self.ints("last_token_ns"), first)
        share = self._share_in(window, first)
        return float((np.maximum(self.ints("input_tokens"), 0) * share)[self.ok].sum())

    def served_in(self, window: Window) -> Floats:
        """Row by row: the share of an ok request's time from send to end that lies inside the window; 0 for others.

        A request at the window's edge counts in part, so that a rate does not depend on which side of the edge a
        batch of answers happens to end.
        """
        return np.where(self.ok, self._share_in(window, self.end_ns), 0.0)

    def _share_in(self, window: Window, until_ns: Ints) -> Floats:
        known = (self.sent_ns != MISSING) & (until_ns != MISSING)
        inside = np.minimum(until_ns, window.end_ns) - np.maximum(self.sent_ns, window.start_ns)
        return np.where(known, np.clip(inside / np.maximum(until_ns - self.sent_ns, 1), 0.0, 1.0), 0.0)

    # the window

    @property
    def whole(self) -> Window | None:
        """From the first measured send to the last end; None when nothing was sent."""
        sent = self.sent_ns[self.measured & (self.sent_ns != MISSING)]
        if not len(sent):
            return None
        return Window("whole", int(sent.min()), int(max(self.end_ns[self.measured].max(), sent.max())))

    def window(self, target: int | None) -> Window | None:
        """The steady window where there is one long enough, else the whole stage; None when nothing was sent.

        ``target``: the concurrency of a closed loop, None for an open one. Steady begins after the warm-up, in a closed
        loop when the target is first in flight, in an open one when the load has lasted for as long as 95 % of the
        requests take. It ends when a request ends and no other takes its place any more, in an open loop with the last
        send. Where requests wait for each other, their chains are counted in the place of requests. It must be twice
        the median latency or longer and hold an end.
        """
        whole = self.whole
        if whole is None:
            return None
        sent = self.sent_ns[self.measured & (self.sent_ns != MISSING)]
        latencies_ms, _ = self.between_ms("sent_ns", "end_ns")
        if not len(latencies_ms):
            return whole
        steady = self._open_window(sent, latencies_ms) if target is None else self._closed_window(sent, target)
        if steady is None:
            return whole
        long_enough = steady.seconds >= 2 * float(np.median(latencies_ms)) / 1e3
        return steady if long_enough and (self.ok & steady.holds(self.end_ns)).any() else whole

    def _open_window(self, measured_sent: Ints, latencies_ms: Floats) -> Window:
        began_ns = int(self.sent_ns[self.sent_ns != MISSING].min())
        settled_ns = began_ns + round(float(np.percentile(latencies_ms, 95)) * 1e6)
        return Window("steady", max(int(measured_sent.min()), settled_ns), int(measured_sent.max()))

    def _closed_window(self, measured_sent: Ints, target: int) -> Window | None:
        start_ns, stop_ns = self._spans_ns
        times = np.concatenate((2 * start_ns + 1, 2 * stop_ns))  # of one moment what stops comes first
        times.sort()
        in_flight = np.cumsum(np.where(times & 1, 1, -1), dtype=np.int32)
        times >>= 1
        at_target = np.flatnonzero((in_flight >= target) & (times >= measured_sent.min()))
        if not len(at_target):
            return None
        fell_ns = min(int(times[at_target[-1] + 1]), int(self.end_ns[self.measured].max()))  # a cool-down is not in it
        return Window("steady", int(times[at_target[0]]), fell_ns)

    @cached_property
    def _spans_ns(self) -> tuple[Ints, Ints]:
        """First send and last end of each chain, its waits included; of each request where there are no chains."""
        was_sent = self.sent_ns != MISSING
        sent, end, chains = self.sent_ns[was_sent], self.end_ns[was_sent], self.ints("chain")[was_sent]
        if not len(chains) or (chains == MISSING).any():
            return sent, end
        _, numbers = np.unique(chains, return_inverse=True)
        first, last = np.full(numbers.max() + 1, sent.max()), np.zeros(numbers.max() + 1, dtype=np.int64)
        np.minimum.at(first, numbers, sent)
        np.maximum.at(last, numbers, end)
        return first, last

    def idle_share(self, window: Window) -> float:
        """Part of the window during which nothing was in flight."""
        was_sent = self.sent_ns != MISSING
        order = np.argsort(self.sent_ns[was_sent], kind="stable")
        start = np.clip(self.sent_ns[was_sent][order], window.start_ns, window.end_ns)
        end = np.clip(self.end_ns[was_sent][order], window.start_ns, window.end_ns)
        covered_to = np.maximum.accumulate(np.concatenate(([window.start_ns], end)))
        gaps = np.maximum(np.append(start, window.end_ns) - covered_to, 0)
        return float(gaps.sum() / max(window.end_ns - window.start_ns, 1))

    @cached_property
    def tasks(self) -> "Tasks":
        """Chains that began in the measured part, and how long those took that were answered to their last turn."""
        chains, turn, turns = self.ints("chain"), self.ints("turn"), self.ints("turns")
        starts = np.flatnonzero(self.measured & (turn == 0) & (self.sent_ns != MISSING))
        ends = np.flatnonzero(self.ok & (chains != MISSING) & (turn == turns - 1))
        began = dict(zip(chains[starts].tolist(), starts.tolist(), strict=True))
        pairs = [(began[chain], end) for chain, end in zip(chains[ends].tolist(), ends, strict=True) if chain in began]
        first = np.array([start for start, _ in pairs], dtype=np.int64)
        last = np.array([end for _, end in pairs], dtype=np.int64)
        ms = (self.ints("last_token_ns")[last] - self.sent_ns[first]) / 1e6 if pairs else np.empty(0)
        return Tasks(len(began), np.asarray(ms, dtype=np.float64))

    def concurrency_in(self, window: Window) -> float:
        """Sum of the time that requests were in flight inside the window / the window."""
        was_sent = self.sent_ns != MISSING
        start = np.maximum(self.sent_ns[was_sent], window.start_ns)
        end = np.minimum(self.end_ns[was_sent], window.end_ns)
        return float(np.maximum(end - start, 0).sum() / max(window.end_ns - window.start_ns, 1))
