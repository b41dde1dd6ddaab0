"""One stage: pacing, recording, and what the client saw of itself."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic_ns, process_time, sleep
from typing import Any

import numpy as np
import pyarrow as pa

from runners.load.answer import row_and_answer
from runners.load.arrivals import ClosedLoop, Offsets, OpenLoop, Span, Times, cut, schedule_ns
from runners.load.calibrate import Calibration
from runners.load.chains import Chains
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.garbage import no_collection
from runners.load.judgement import Client
from runners.load.outcomes import FATAL, Outcome
from runners.load.plan import StagePlan
from runners.load.supply import Supply
from runners.load.target import Requests
from runners.load.tokens import CountTokens
from runners.load.unsent import RequestSpool
from runners.load.workloads import Said, Workload
from runners.load.workloads.trace import Recording
from runners.spec import Arrivals, RunSpec

_BUILD_AHEAD = 64
#: How long building may hold up: a report before the start, sending and reading afterwards.
_FILL_S, _BUILD_S = 0.25, 0.0005
_LEAD_NS = 5_000_000
#: Before a common start, for the collection of garbage.
_SETTLE_S = 0.5
_RECENT = 20


def turn_columns(exchange: Exchange) -> dict[str, Any]:
    """What the row says of the workload."""
    turn = exchange.turn
    chain = turn.chain if turn else None
    return {
        "level": exchange.level,
        "group": turn.group if turn else None,
        "chain": chain.number if chain else None,
        "turn": turn.position if turn and chain else None,
        "turns": chain.turns if chain else None,
        "reusable_tokens": turn.reusable_tokens if turn else None,
    }


class Recorder:
    """Reads finished exchanges into rows, spools them, and counts for the progress line. ``stop`` is called with a
    reason when going on is pointless: nothing can be written, or an answer says that no other will succeed. ``then`` is
    called after each.
    """

    def __init__(self, spool: RequestSpool, requests: Requests, count_tokens: CountTokens | None) -> None:
        self._spool = spool
        self._requests = requests
        self._count_tokens = count_tokens
        self.write_error: OSError | None = None
        self.stop: Callable[[str], None] = lambda reason: None
        self.on_answer: Callable[[Exchange, dict[str, Any], str], None] | None = None
        self.then: Callable[[], None] = lambda: None
        self.reset()

    def reset(self) -> None:
        self.ok = self.failed = self.finished = self.output_tokens = 0
        self.recent_ttft_ms: deque[float] = deque(maxlen=_RECENT)

    def take(self, exchange: Exchange) -> None:
        requests = self._requests
        row, answer = row_and_answer(
            exchange,
            requests.form,
            streams=requests.streams,
            count_tokens=self._count_tokens,
            secret=requests.key,
        )
        row |= turn_columns(exchange)
        if self.on_answer:
            self.on_answer(exchange, row, answer.said.answer_text)
        self._count(row)
        self._write(lambda: self._spool.append(row))
        if row["outcome"] in FATAL and row["outcome"] != Outcome.AUTH_ERROR:  # the engine counts those by their status
            self.stop(row["outcome"])
        self.then()

    def append_batch(self, batch: pa.RecordBatch) -> None:
        self._write(lambda: self._spool.append_batch(batch))

    def flush(self) -> None:
        self._write(self._spool.flush)

    def close(self) -> None:
        self._write(self._spool.close)

    def _write(self, write: Callable[[], None]) -> None:
        """After the first failure nothing more is written: half a batch at the end would spoil what stands before."""
        if self.write_error is not None:
            return
        try:
            write()
        except OSError as error:
            self.write_error = error
            self.stop("write_error")

    def _count(self, row: dict[str, Any]) -> None:
        if row["warmup"]:
            return
        self.finished += 1
        if row["outcome"] == Outcome.OK:
            self.ok += 1
            self.output_tokens += row["output_tokens"] or 0
            if row["first_token_ns"]:
                self.recent_ttft_ms.append((row["first_token_ns"] - row["sent_ns"]) / 1e6)
        elif row["outcome"] not in (Outcome.CANCELLED, Outcome.NOT_SENT):
            self.failed += 1


@dataclass(frozen=True)
class Work:
    """What a stage sends. ``recording`` has the times of a replay; ``chained``: turns wait for each other."""

    workload: Workload
    chained: bool = False
    recording: Recording | None = None

    @property
    def recorded_per_s(self) -> float:
        return self.recording.per_s if self.recording else 1.0


class Stage:
    """Drives one stage. ``begin_ns`` is set when it starts; ``client`` tells afterwards how the generator fared."""

    def __init__(
        self, spec: RunSpec, plan: StagePlan, engine: Engine, recorder: Recorder, requests: Requests, work: Work
    ) -> None:
        self.spec = spec
        self.plan = plan
        self.begin_ns = 0
        self.end_ns = 0
        self.cpu_s = 0.0
        self.engine = engine
        self._recorder = recorder
        self._work = work
        self._supply = Supply(requests, work.workload, plan, spec)
        self._pacing: ClosedLoop | OpenLoop | Chains | None = None
        self._offsets_ns: Offsets | None = None
        self._requests = None if plan.requests is None else plan.share.part(plan.requests)

    @property
    def closed(self) -> bool:
        return self.spec.load.arrivals is Arrivals.CLOSED

    @property
    def ahead(self) -> int:
        """How many requests are kept built."""
        level = self.plan.share.level(self.closed, self.plan.level)
        level *= self._work.recorded_per_s if self.spec.load.arrivals is Arrivals.REPLAY else 1.0
        return max(_BUILD_AHEAD, 2 * int(level)) if self.closed else max(_BUILD_AHEAD, int(4 * level))

    @property
    def planned(self) -> int | None:
        """Requests planned after the warm-up; None while only the clock decides."""
        return self._pacing.planned if isinstance(self._pacing, OpenLoop) else self._requests

    def prepare(self, on_tick: Callable[[int], None]) -> None:
        """Computes the schedule and builds the first requests, with a report now and then, until they wait or the run
        is stopped.
        """
        self._recorder.reset()
        self.begin_ns = monotonic_ns()
        self._offsets_ns = None if self.closed else self._schedule()
        count = self.ahead if self._requests is None else min(self.ahead, self._requests)
        while not self.engine.stop_reason and not self._supply.fill(count, _FILL_S):
            on_tick(monotonic_ns())

    def run(self, begin_ns: int, on_tick: Callable[[int], None]) -> None:
        """Sends what was prepared from ``begin_ns`` on; at once where that is 0."""
        sleep(max(0.0, (begin_ns - monotonic_ns()) / 1e9 - _SETTLE_S))
        with no_collection():
            sleep(max(0.0, (begin_ns - monotonic_ns()) / 1e9))
            cpu_began_s = process_time()
            self.begin_ns = begin_ns or monotonic_ns() + (0 if self.closed else _LEAD_NS)
            self._pacing = pacing = self._make_pacing()
            self._recorder.on_answer = partial(self._answered, pacing) if isinstance(pacing, Chains) else None
            self._recorder.then = partial(self._build_ahead, pacing)
            self.engine.drive(pacing, self._next, drain_s=self.spec.load.drain_s, on_tick=on_tick)
        self.end_ns = monotonic_ns()
        self._recorder.on_answer, self._recorder.then = None, lambda: None
        self._record_not_sent(pacing)
        self._recorder.flush()
        self.cpu_s = process_time() - cpu_began_s

    def phase(self, now_ns: int) -> str:
        if self._pacing is None or now_ns < self.begin_ns + self.spec.load.warmup_s * 1e9:
            return "warmup"
        return "drain" if self._pacing and self._pacing.ended(now_ns) else "measure"

    def fraction(self, now_ns: int) -> float:
        """How far, between 0 and 1."""
        if self._pacing is None:
            return 0.0
        if self.plan.share.idle:
            return 1.0
        load, requests = self.spec.load, self.planned
        elapsed_s = (now_ns - self.begin_ns) / 1e9
        by_count = self._recorder.finished / requests if requests else 0.0
        by_time = elapsed_s / (load.warmup_s + load.duration_s + load.cooldown_s) if load.duration_s else 0.0
        return min(1.0, max(by_count, by_time))

    def client(self, calibration: Calibration | None) -> Client:
        engine, pacing = self.engine, self._pacing
        delays_ns = engine.read_delays_ns()
        wall_ns = max(self.end_ns - self.begin_ns, 1)
        starts = pacing.starts if isinstance(pacing, Chains) else pacing
        return Client(
            clock="kernel" if engine.clock.kernel_stamps else "user",
            busy_share=max(0.0, 1 - engine.asleep_ns / wall_ns),
            cpu_s=self.cpu_s,
            scheduled=engine.scheduled,
            waited_share=None if engine.waited_ns is None else engine.waited_ns / wall_ns,
            read_delay_p99_ms=float(np.percentile(delays_ns, 99)) / 1e6 if len(delays_ns) else None,
            replaced_stamps=engine.clock.replaced,
            capped=isinstance(starts, OpenLoop) and starts.capped,
            stop_reason=engine.stop_reason,
            calibration=calibration,
        )

    # sending

    def _make_pacing(self) -> ClosedLoop | OpenLoop | Chains:
        load, chained, share = self.spec.load, self._work.chained, self.plan.share
        warm_ns = self.begin_ns + round(load.warmup_s * 1e9)
        end_ns = warm_ns + round(load.duration_s * 1e9) if load.duration_s else None
        cooldown_ns = round(load.cooldown_s * 1e9)
        span = Span(warm_ns, self._requests, end_ns, cooldown_ns)
        starts_span = Span(warm_ns, None, end_ns, cooldown_ns) if chained else span
        starts: ClosedLoop | OpenLoop
        if self._offsets_ns is None:
            rise_from = load.ramp_from and load.ramp_from * share.part(int(self.plan.level)) / self.plan.level
            starts = ClosedLoop(share.part(int(self.plan.level)), starts_span, rise_from)
        else:
            starts = OpenLoop(self.begin_ns + self._offsets_ns, starts_span, share.part(load.max_in_flight))
        return Chains(starts, span) if chained else starts

    def _schedule(self) -> Offsets:
        """This share of an open loop's times, from the beginning of the stage; sets how many of them are measured."""
        whole, share, requests = self._whole_schedule(), self.plan.share, self.plan.requests
        if requests is not None:
            warm_up = int(np.searchsorted(whole, round(self.spec.load.warmup_s * 1e9)))
            self._requests = share.part(warm_up + requests) - share.part(warm_up)
        return share.dealt(whole)

    def _whole_schedule(self) -> Offsets:
        load = self.spec.load
        times = Times(load.warmup_s, self.plan.requests, load.duration_s, load.cooldown_s)
        if self._work.recording is not None and load.arrivals is Arrivals.REPLAY:
            return cut(self._work.recording.offsets_ns(self.plan.level), times)
        return schedule_ns(
            load.arrivals, self.plan.level, times, self.spec.workload.seed, cv=load.cv, rise_from=load.ramp_from
        )

    def _build_ahead(self, pacing: ClosedLoop | OpenLoop | Chains) -> None:
        """Two requests for each answer, until half of what was built at the start waits; one where that takes long."""
        if pacing.ended(monotonic_ns()):
            return
        self._supply.fill(min(self.ahead // 2, self._left(pacing), self._supply.waiting + 2), _BUILD_S)

    def _left(self, pacing: ClosedLoop | OpenLoop | Chains) -> int:
        """How many requests there are yet to send, as far as that is known."""
        if isinstance(pacing, OpenLoop):
            return len(pacing.due_ns) - pacing.sent
        return self.ahead if self._requests is None else self._requests - pacing.span.measured

    def _next(self, warmup: bool) -> Exchange:
        turn = self._pacing.following if isinstance(self._pacing, Chains) else None
        return self._supply.take(warmup) if turn is None else self._supply.following(turn)

    def _answered(self, pacing: Chains, exchange: Exchange, row: dict[str, Any], text: str) -> None:
        """Holds the turn after an answered one until it is due."""
        assert exchange.turn is not None  # noqa: S101
        ok = row["outcome"] == Outcome.OK
        said = Said(ok, text, row["input_tokens"], row["output_tokens"], exchange.due_ns, exchange.end_ns)
        following = self._work.workload.follow(exchange.turn, said)
        if following is None:
            pacing.close()
        else:
            pacing.hold(*following)

    def _record_not_sent(self, pacing: ClosedLoop | OpenLoop | Chains) -> None:
        """A row for every planned request that was never sent, so that counts always add up."""
        if isinstance(pacing, OpenLoop):
            due_ns = pacing.due_ns[pacing.sent :]
            due_ns = due_ns[due_ns >= pacing.span.warm_ns][: pacing.planned - pacing.span.measured]
        else:
            planned = self._requests if self.engine.stop_reason else None
            due_ns = np.zeros(max(0, (planned or 0) - pacing.span.measured), dtype=np.int64)
        for batch in self._supply.unsent(due_ns, f"the stage was stopped: {self.engine.stop_reason}"):
            self._recorder.append_batch(batch)
