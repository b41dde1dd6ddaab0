"""One load level: supply of requests, pacing, recording, and what the client saw of itself."""

import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic_ns, process_time, sleep
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runners.load.answer import row_of
from runners.load.arrivals import ClosedLoop, OpenLoop, schedule_ns
from runners.load.calibrate import Calibration
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.outcomes import FATAL, Outcome
from runners.load.shares import Share
from runners.load.summary import Client
from runners.load.target import Requests
from runners.load.transcript import CountTokens
from runners.load.unsent import RequestSpool, unsent_batches
from runners.load.workload import Images, LengthFit, Models, Prompts
from runners.spec import Arrivals, RunSpec

_BUILD_AHEAD = 64
_AHEAD_BYTES = 64_000_000
_BYTES_PER_TOKEN = 6
_BYTES_PER_PIXEL = 4  # in base64
#: How long building may hold up: a report before the start, a send afterwards.
_FILL_S, _TOP_UP_S = 0.25, 0.02
_LEAD_NS = 5_000_000
_RECENT = 20


@contextmanager
def _no_collection() -> Iterator[None]:
    """No pause of the garbage collector falls into a measurement; what is measured makes no cycles."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


class Supply:
    """Requests built before they are due, so that building never delays a send."""

    def __init__(self, requests: Requests, spec: RunSpec, fit: LengthFit, stage: int) -> None:
        workload, salt = spec.workload, f"{spec.salt}/stage{stage}"
        self._requests = requests
        self._prompts = Prompts(workload.seed, salt, fit.words_for(workload.input_tokens))
        self._models = Models(workload.models, workload.seed, salt)
        self._images = Images(workload.images, salt, workload.seed)
        self._workload = workload
        self._share = Share.of(spec, spec.load.levels[stage])
        self._stage = stage
        self._ready: deque[Exchange] = deque()
        self._built = 0

    @property
    def taken(self) -> int:
        return self._built - len(self._ready)

    @property
    def most(self) -> int:
        """How many may wait without taking too much memory."""
        images = self._workload.images
        pixels = images.count * images.width_px * images.height_px
        return max(1, _AHEAD_BYTES // (self._workload.input_tokens * _BYTES_PER_TOKEN + pixels * _BYTES_PER_PIXEL))

    def fill(self, count: int, limit_s: float) -> bool:
        """Builds until ``count`` wait; True when they do, False when the time was over before."""
        end_ns, count = monotonic_ns() + round(limit_s * 1e9), min(count, self.most)
        while len(self._ready) < count:
            if monotonic_ns() >= end_ns:
                return False
            self._ready.append(self._build())
        return True

    def take(self) -> Exchange:
        return self._ready.popleft() if self._ready else self._build()

    def _build(self) -> Exchange:
        index = self._share.number(self._built)
        self._built += 1
        requests, workload = self._requests, self._workload
        model = self._models.pick(index)
        request = requests.build(
            self._prompts.prompt(index), workload.output_tokens, model=model, images=self._images.of(index)
        )
        return Exchange(
            request,
            stage=self._stage,
            index=index,
            model=model or requests.models[0],
            asked_input_tokens=workload.input_tokens,
            asked_output_tokens=self._asked_output_tokens,
        )

    @property
    def _asked_output_tokens(self) -> int:
        return self._workload.output_tokens * self._workload.choices if self._requests.form.generates else 0

    def unsent(self, due_ns: NDArray[np.int64], detail: str) -> Iterator[pa.RecordBatch]:
        """Rows for requests that will never be taken, without building them; ``due_ns`` as in unsent_batches."""
        numbers = [self._share.number(self.taken + nth) for nth in range(len(due_ns))]
        models = [self._requests.models[0]]
        if self._workload.models:
            models = [self._models.pick(number) for number in numbers]
        same = {
            "stage": self._stage,
            "model": models[0] if models else None,
            "asked_input_tokens": self._workload.input_tokens,
            "asked_output_tokens": self._asked_output_tokens,
        }
        return unsent_batches(same, numbers, due_ns, models, detail)


class Recorder:
    """Reads finished exchanges into rows, spools them, and counts for the progress line. ``stop`` is called with a
    reason when going on is pointless: nothing can be written, or an answer says that no other will succeed.
    """

    def __init__(self, spool: RequestSpool, requests: Requests, count_tokens: CountTokens | None) -> None:
        self._spool = spool
        self._requests = requests
        self._count_tokens = count_tokens
        self.write_error: OSError | None = None
        self.stop: Callable[[str], None] = lambda reason: None
        self.reset()

    def reset(self) -> None:
        self.ok = self.failed = self.finished = self.output_tokens = 0
        self.recent_ttft_ms: deque[float] = deque(maxlen=_RECENT)

    def take(self, exchange: Exchange) -> None:
        requests = self._requests
        row = row_of(
            exchange,
            requests.form,
            streams=requests.streams,
            count_tokens=self._count_tokens,
            secret=requests.key,
        )
        self._count(row)
        self._write(lambda: self._spool.append(row))
        if row["outcome"] in FATAL and row["outcome"] != Outcome.AUTH_ERROR:  # the engine counts those by their status
            self.stop(row["outcome"])

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


class Stage:
    """Drives one level. ``begin_ns`` is set when it starts; ``client`` tells afterwards how the generator fared."""

    def __init__(self, spec: RunSpec, index: int, engine: Engine, recorder: Recorder, supply: Supply) -> None:
        self.spec = spec
        self.index = index
        self.level = spec.load.levels[index]
        self.share = Share.of(spec, self.level)
        self.begin_ns = 0
        self.end_ns = 0
        self.cpu_s = 0.0
        self._engine = engine
        self._recorder = recorder
        self._supply = supply
        self._pacing: ClosedLoop | OpenLoop | None = None
        self._offsets_ns: NDArray[np.int64] | None = None

    @property
    def closed(self) -> bool:
        return self.spec.load.arrivals is Arrivals.CLOSED

    @property
    def ahead(self) -> int:
        """How many requests are kept built."""
        return max(_BUILD_AHEAD, 2 * int(self.level)) if self.closed else max(_BUILD_AHEAD, int(4 * self.level))

    @property
    def planned(self) -> int | None:
        """Requests planned after the warm-up; None while only the clock decides."""
        if isinstance(self._pacing, OpenLoop):
            return int((self._pacing.due_ns >= self._pacing.warm_ns).sum())
        return self.requests

    @property
    def requests(self) -> int | None:
        """Of this share, after the warm-up; None where a duration alone ends the stage."""
        whole = self.spec.load.requests
        return None if whole is None else self.share.part(whole)

    def prepare(self, on_tick: Callable[[int], None]) -> None:
        """Computes the schedule and builds the first requests, with a report now and then, until they wait or the run
        is stopped.
        """
        self._recorder.reset()
        self.begin_ns = monotonic_ns()
        self._offsets_ns = self._schedule_ns()
        count = min(self.ahead, self.ahead if self.requests is None else self.requests)
        while not self._engine.stop_reason and not self._supply.fill(count, _FILL_S):
            on_tick(monotonic_ns())

    def run(self, begin_ns: int, on_tick: Callable[[int], None]) -> None:
        """Sends what was prepared from ``begin_ns`` on; at once where that is 0."""
        with _no_collection():
            sleep(max(0.0, (begin_ns - monotonic_ns()) / 1e9))
            cpu_began_s = process_time()
            self.begin_ns = begin_ns or monotonic_ns() + (0 if self.closed else _LEAD_NS)
            self._pacing = pacing = self._make_pacing()
            self._engine.drive(pacing, self._supply.take, drain_s=self.spec.load.drain_s, on_tick=on_tick)
        self.end_ns = monotonic_ns()
        self._record_not_sent(pacing)
        self._recorder.flush()
        self.cpu_s = process_time() - cpu_began_s

    def top_up(self) -> None:
        """To be called between sends, while the loop has time."""
        if self.spec.load.requests is None and self._pacing is not None:
            self._supply.fill(self.ahead // 2, _TOP_UP_S)

    def phase(self, now_ns: int) -> str:
        if self._pacing is None or now_ns < self.begin_ns + self.spec.load.warmup_s * 1e9:
            return "warmup"
        return "drain" if self._pacing and self._pacing.ended(now_ns) else "measure"

    def fraction(self, now_ns: int) -> float:
        """How far, between 0 and 1."""
        if self._pacing is None:
            return 0.0
        if self.share.idle:
            return 1.0
        load, requests = self.spec.load, self.requests
        elapsed_s = (now_ns - self.begin_ns) / 1e9
        by_count = self._recorder.finished / requests if requests else 0.0
        by_time = elapsed_s / (load.warmup_s + load.duration_s) if load.duration_s else 0.0
        return min(1.0, max(by_count, by_time))

    def client(self, calibration: Calibration | None) -> Client:
        engine = self._engine
        delays = np.array(engine.read_delays_ns) if engine.read_delays_ns else None
        wall_ns = max(self.end_ns - self.begin_ns, 1)
        return Client(
            clock="kernel" if engine.clock.kernel_stamps else "user",
            busy_share=max(0.0, 1 - engine.asleep_ns / wall_ns),
            cpu_s=self.cpu_s,
            read_delay_p99_ms=None if delays is None else float(np.percentile(delays, 99)) / 1e6,
            replaced_stamps=engine.clock.replaced,
            capped=isinstance(self._pacing, OpenLoop) and self._pacing.capped,
            stop_reason=engine.stop_reason,
            calibration=calibration,
        )

    def _make_pacing(self) -> ClosedLoop | OpenLoop:
        load, share = self.spec.load, self.share
        warm_ns = self.begin_ns + round(load.warmup_s * 1e9)
        if self._offsets_ns is not None:
            return OpenLoop(self.begin_ns + self._offsets_ns, warm_ns, share.part(load.max_in_flight))
        end_ns = warm_ns + round(load.duration_s * 1e9) if load.duration_s else None
        return ClosedLoop(share.part(int(self.level)), warm_ns, self.requests, end_ns)

    def _schedule_ns(self) -> NDArray[np.int64] | None:
        """This share of an open loop's times, from the beginning of the stage; None for a closed one."""
        load = self.spec.load
        if self.closed:
            return None
        whole = schedule_ns(
            load.arrivals,
            self.level,
            warmup_s=load.warmup_s,
            requests=load.requests,
            duration_s=load.duration_s,
            seed=self.spec.workload.seed,
        )
        return self.share.dealt(whole)

    def _record_not_sent(self, pacing: ClosedLoop | OpenLoop) -> None:
        """A row for every planned request that was never sent, so that counts always add up."""
        if isinstance(pacing, OpenLoop):
            due_ns = pacing.due_ns[pacing.sent :]
            due_ns = due_ns[due_ns >= pacing.warm_ns]
        else:
            planned = pacing.requests if self._engine.stop_reason else None
            due_ns = np.zeros(max(0, (planned or 0) - pacing.measured), dtype=np.int64)
        for batch in self._supply.unsent(due_ns, f"the stage was stopped: {self._engine.stop_reason}"):
            self._recorder.append_batch(batch)
