"""Puts tasks to an endpoint through the engine that measures, and reads the answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from runners.address import AddressError, ResolveError
from runners.load import body
from runners.load.answer import mask, row_of
from runners.load.arrivals import ClosedLoop, Span
from runners.load.check import Asker, OnTick, Unusable, accepted, explain
from runners.load.dialects.base import Token
from runners.load.engine import Engine
from runners.load.exchange import Exchange
from runners.load.outcomes import FATAL, Outcome
from runners.load.records import Spool
from runners.load.target import Requests, base_endpoint, destination
from runners.load.transport import Destination
from runners.quality.answers import Answer
from runners.quality.score import judge
from runners.quality.spec import QualitySpec
from runners.quality.tasks import Kind, Task
from runners.spec import Target, Workload

#: Alternatives at each token: as many as usual servers give where letters are looked for, else enough to compare.
_LETTER_TOP, _TOP = 20, 5
_HELLO = "Say hello."


@dataclass(frozen=True)
class Settled:
    """The form in which the endpoint takes greedy requests. ``top``: alternatives that it gives for each token, 0
    without log probabilities.
    """

    where: Destination
    requests: Requests
    top: int
    seeded: bool

    @property
    def greedy(self) -> bool:
        """False where the endpoint refuses to be told a temperature."""
        return "temperature" not in self.requests.omit

    def build(self, task: Task, output_tokens: int) -> bytes:
        logprobs = self.requests.form.logprobs
        requests = self.requests
        if self.top and logprobs:
            top = self.top if task.kind is Kind.CHOICE else min(self.top, _TOP)
            requests = _with_fields(requests, logprobs.fields(top))
        return requests.build(task.asked, output_tokens)


def _with_fields(requests: Requests, fields: dict[str, Any]) -> Requests:
    target = requests.target
    return replace(requests, target=replace(target, extra_body=fields | target.extra_body))


def settle(spec: QualitySpec, target: Target, key: str, on_tick: OnTick) -> Settled:
    """Asks short questions until the endpoint takes one, with ever fewer of the fields that some refuse.

    Raises Unusable, and SpecError for files and names that cannot be used.
    """
    try:
        endpoint = base_endpoint(target.url, target.dialect)
        where = destination(endpoint, target)
    except ResolveError as error:
        raise Unusable(str(error.outcome), str(error)) from None
    except AddressError as error:
        raise Unusable("bad_url", str(error)) from None
    plain = Requests(endpoint, target, Workload(stream=False, ignore_eos=False), key)
    asker = Asker(where, spec.timeouts, on_tick)
    tops = (_LETTER_TOP, _TOP, 0) if plain.form.logprobs else (0,)
    row: dict[str, Any] = {}
    for top, seeded in [(top, seeded) for seeded in (True, False) for top in tops]:
        fields = plain.form.logprobs.fields(top) if top and plain.form.logprobs else {}
        base = _with_fields(plain, {"seed": spec.seed}) if seeded else plain
        asked, row = accepted(asker, _with_fields(base, fields), _HELLO)
        if row["http_status"] not in (400, 422):
            if row["outcome"] not in (Outcome.OK, Outcome.EMPTY):
                break
            return Settled(where, replace(base, omit=asked.omit, rename=asked.rename), top, seeded)
    raise Unusable(row["outcome"], explain(row))


@dataclass(frozen=True)
class Told:
    """What an answer's JSON says: text without hidden reasoning, and its tokens."""

    text: str
    tokens: tuple[Token, ...]


def read_answer(exchange: Exchange, requests: Requests) -> Told | None:
    """None for what cannot be read; its row says why."""
    try:
        return _read(exchange, requests)
    except Exception:  # one answer must never end an evaluation
        return None


def _read(exchange: Exchange, requests: Requests) -> Told:
    chunk = body.parse(body.Content(exchange.response).whole())
    delta = requests.form.read_whole(chunk)
    text = "".join(piece.content for piece in delta.pieces if piece.choice == 0)
    read = requests.form.logprobs
    return Told(mask(text, requests.key), tuple(read.read(chunk)) if read else ())


class Asking:
    """One pass of all tasks over one endpoint. ``answers`` are in the order of the tasks when ``run`` has ended."""

    def __init__(self, spec: QualitySpec, tasks: Sequence[Task], settled: Settled, spool: Path, stage: int) -> None:
        self.done: dict[int, Answer] = {}
        self.failed = 0
        self._spec = spec
        self._tasks = tasks
        self._settled = settled
        self._spool_path = spool
        self._stage = stage
        self._sent = 0
        self._engine = Engine(settled.where, spec.timeouts, self._take)
        self._engine.resend = spec.budget.max_usd is None
        self._spool: Spool | None = None

    @property
    def in_flight(self) -> int:
        return self._engine.in_flight

    @property
    def sent(self) -> int:
        return self._sent

    def stop(self, reason: str) -> None:
        """Safe in a signal handler."""
        self._engine.stop(reason)

    def run(self, on_tick: Callable[[int], None]) -> list[Answer]:
        """Raises OSError when rows cannot be written."""
        timeouts = self._spec.timeouts
        pacing = ClosedLoop(self._spec.concurrency, Span(0, requests=len(self._tasks)))
        try:
            with Spool(self._spool_path) as self._spool:
                self._engine.drive(
                    pacing,
                    self._next,
                    drain_s=timeouts.connect_s + timeouts.total_s,
                    on_tick=partial(self._tick, on_tick),
                )
        finally:
            self._engine.close()
        stopped = self._engine.stop_reason or "interrupted"
        return [self.done.get(index) or _unsent(task, stopped) for index, task in enumerate(self._tasks)]

    def _tick(self, on_tick: Callable[[int], None], now_ns: int) -> None:
        if self._spool:
            self._spool.flush()
        on_tick(now_ns)

    def _next(self, warmup: bool) -> Exchange:
        index = self._sent
        self._sent += 1
        task, settled = self._tasks[index], self._settled
        length = self._spec.length(task)
        return Exchange(
            settled.build(task, length),
            stage=self._stage,
            level=float(self._spec.concurrency),
            index=index,
            model=settled.requests.models[0],
            asked_output_tokens=length,
        )

    def _take(self, exchange: Exchange) -> None:
        requests, task = self._settled.requests, self._tasks[exchange.index]
        told = read_answer(exchange, requests)
        row = row_of(exchange, requests.form, streams=False, secret=requests.key)
        if self._spool:
            self._spool.append(row)
        self.done[exchange.index] = answer = _answer(task, row, told)
        self.failed += not answer.answered
        if row["outcome"] in FATAL and row["outcome"] != Outcome.AUTH_ERROR:
            self._engine.stop(row["outcome"])


def _blank(task: Task) -> Answer:
    return Answer(task.id, task.kind.value, task.topic, expected=" | ".join(task.answers))


def _answer(task: Task, row: dict[str, Any], told: Told | None) -> Answer:
    """An empty answer is an answer, and wrong; a failure is none."""
    outcome = row["outcome"]
    if told is None or outcome not in (Outcome.OK, Outcome.EMPTY):
        return replace(_blank(task), outcome=outcome, detail=row["detail"])
    verdict = judge(task, told.text, told.tokens)
    return replace(
        _blank(task),
        text=told.text,
        finish_reason=row["finish_reason"],
        found=verdict.found,
        by=verdict.by,
        correct=verdict.correct,
        tokens=told.tokens,
    )


def _unsent(task: Task, why: str) -> Answer:
    return replace(_blank(task), outcome=Outcome.NOT_SENT.value, detail=f"the evaluation was stopped: {why}")
