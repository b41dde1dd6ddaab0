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
class Gaps:
    """Between consecutive token events, in milliseconds; each with the number of its request."""

    event_ms: Floats
    event_clusters: Ints
    token_ms: Floats
    token_clusters: Ints
    same_read_share: float | None


@dataclass(frozen=True)
class Tasks:
    """``ms``: from the first send to the last token of each task that was finished."""

    started: int
    ms: Floats


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
    def first_tokens(self) -> Floats:
        """Tokens that came with the first read of each choice's stream, added up; an event counts as one token unless
        the server tells, or sends clearly more tokens than events."""
        rows, stamps, tokens = self.token_events
        order, inner = self._timelines
        if not len(rows):
            return np.ones(len(self.table))
        begins = np.concatenate(([True], ~inner))
        timeline = np.cumsum(begins) - 1
        with_first = stamps[order] == stamps[order][begins][timeline]
        counted = np.where(tokens > _MULTI_TOKEN, tokens, 1.0)[order] * with_first
        return np.asarray(np.bincount(rows[order], weights=counted, minlength=len(self.table)), dtype=np.float64)

    @cached_property
    def tpot_ms(self) -> tuple[Floats, Ints]:
        """Time that tokens after the first read took, per token, and row numbers; missing below one such token.

        (last token - first token) / (tokens - tokens that came with the first). With several choices the times of all
        are added up, and so are their tokens.
        """
        _, rows = self.between_ms("first_token_ns", "last_token_ns")
        span_ms = self.decode_ms[rows]
        after_first = self.ints("output_tokens")[rows] - self.first_tokens[rows]
        known = after_first >= 1
        return span_ms[known] / after_first[known], rows[known]

    @cached_property
    def decode_ms(self) -> Floats:
        """From the first token to the last of each request, added up over its choices."""
        spans = (self.ints("last_token_ns") - self.ints("first_token_ns")) / 1e6
        if self.table.column("event_choices").null_count < len(self.table):
            rows, stamps, _ = self.token_events
            order, inner = self._timelines
            gaps_ms = np.diff(stamps[order])[inner] / 1e6
            summed = np.bincount(rows[order][1:][inner], weights=gaps_ms, minlength=len(self.table))
            several = np.asarray(pc.is_valid(self.table.column("event_choices")).to_numpy(), dtype=np.bool_)
            spans = np.where(several, summed, spans)
        return np.asarray(spans, dtype=np.float64)

    @cached_property
    def _timelines(self) -> tuple[Ints, Bools]:
        """Token events in the order of request, choice, time; and for each but the first, whether it follows another
        of the same choice."""
        rows, stamps, _ = self.token_events
        choices = np.zeros(len(rows), dtype=np.int64)
        column = self.table.column("event_choices").combine_chunks()
        has_choices = np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False), dtype=np.bool_)
        choices[has_choices[rows]] = pc.list_flatten(column).to_numpy(zero_copy_only=False)
        order = np.lexsort((stamps, choices, rows)) if has_choices.any() else np.arange(len(rows))
        same = (np.diff(rows[order]) == 0) & (np.diff(choices[order]) == 0)
        return order, same

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

    def token_events_in(self, window: Window) -> int:
        """Of ok requests."""
        rows, stamps, _ = self.token_events
        return int((window.holds(stamps) & self.ok[rows]).sum())

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

    @cached_property
    def gaps(self) -> Gaps:
        """Gaps of good requests, within one choice. An event of k tokens is one event gap and k token gaps of a k-th
        each."""
        rows, stamps, tokens = self.token_events
        order, inner = self._timelines
        inner = inner & self.good[rows[order][1:]]
        event_ms = (np.diff(stamps[order]) / 1e6)[inner]
        clusters, per_event = rows[order][1:][inner], tokens[order][1:][inner]
        many = per_event > _MULTI_TOKEN
        token_ms = np.where(many, event_ms / np.where(many, per_event, 1.0), event_ms)
        repeats = np.where(many, np.maximum(np.rint(per_event), 1), 1).astype(np.int64)
        same = float((event_ms == 0).mean()) if len(event_ms) else None
        return Gaps(event_ms, clusters, np.repeat(token_ms, repeats), np.repeat(clusters, repeats), same)

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
        times = np.concatenate((start_ns, stop_ns))
        steps = np.concatenate((np.ones(len(start_ns)), -np.ones(len(stop_ns))))
        order = np.lexsort((steps, times))
        times, in_flight = times[order], np.cumsum(steps[order])
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
