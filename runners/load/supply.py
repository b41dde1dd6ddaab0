"""Requests built before they are due, so that building never delays a send."""

from collections import deque
from time import monotonic_ns

from runners.load.exchange import Exchange
from runners.load.plan import StagePlan
from runners.load.target import Requests
from runners.load.variants import Images, Models
from runners.load.workloads import Turn, Workload
from runners.spec import RunSpec


class Supply:
    """The requests of one stage."""

    def __init__(self, requests: Requests, workload: Workload, plan: StagePlan, spec: RunSpec) -> None:
        asked, salt = spec.workload, f"{spec.salt}/stage{plan.index}"
        self._requests = requests
        self._workload = workload
        self._plan = plan
        self._models = Models(asked.models, asked.seed, salt)
        self._images = Images(asked.images, salt, asked.seed)
        self._choices = asked.choices if requests.form.generates else 0
        self._warming = spec.load.warmup_s > 0
        self._ready: deque[Exchange] = deque()
        self._started = self._built = self._sent = 0

    def fill(self, count: int, *, until_ns: int | None = None) -> None:
        """Builds until so many are ready, or the time has come."""
        while len(self._ready) < count and (until_ns is None or monotonic_ns() < until_ns):
            self._ready.append(self._start())

    def take(self, warmup: bool) -> Exchange:
        """The next request that waits for no other."""
        if self._warming and not warmup:
            self._warming = False
            if self._workload.renew():
                self._ready.clear()
        return self._numbered(self._ready.popleft() if self._ready else self._start())

    def following(self, turn: Turn) -> Exchange:
        """The request of a turn that had to wait."""
        return self._numbered(self._build(turn))

    def _numbered(self, exchange: Exchange) -> Exchange:
        exchange.index = self._sent
        self._sent += 1
        return exchange

    def _start(self) -> Exchange:
        self._started += 1
        return self._build(self._workload.start(self._started - 1))

    def _build(self, turn: Turn) -> Exchange:
        number = self._built
        self._built += 1
        model = self._models.pick(number) or self._requests.models[0]
        images = self._images.of(number)
        return Exchange(
            self._requests.build(turn.messages, turn.output_tokens, model=model, images=images),
            stage=self._plan.index,
            level=self._plan.value,
            model=model,
            asked_input_tokens=turn.input_tokens,
            asked_output_tokens=turn.output_tokens * self._choices,
            turn=turn,
        )
