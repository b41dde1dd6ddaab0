"""Requests built before they are due, so that building never delays a send."""

from collections import deque
from collections.abc import Iterator
from time import monotonic_ns

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from runners.load.exchange import Exchange
from runners.load.plan import StagePlan
from runners.load.target import Requests
from runners.load.unsent import unsent_batches
from runners.load.variants import Images, Models
from runners.load.workloads import Turn, Workload
from runners.spec import RunSpec

_AHEAD_BYTES = 64_000_000


class Supply:
    """The requests of one stage."""

    def __init__(self, requests: Requests, workload: Workload, plan: StagePlan, spec: RunSpec) -> None:
        asked, salt = spec.workload, f"{spec.salt}/stage{plan.index}"
        self._asked = asked
        self._requests = requests
        self._workload = workload
        self._plan = plan
        self._share = plan.share
        self._models = Models(asked.models, asked.seed, salt)
        self._images = Images(asked.images, salt, asked.seed)
        self._choices = asked.choices if requests.form.generates else 0
        self._warming = spec.load.warmup_s > 0
        self._ready: deque[Exchange] = deque()
        self._ready_bytes = 0
        self._started = self._built = self._sent = 0

    @property
    def waiting(self) -> int:
        return len(self._ready)

    def fill(self, count: int, limit_s: float) -> bool:
        """Builds until ``count`` wait, or as many as memory allows; False when the time was over before."""
        end_ns = monotonic_ns() + round(limit_s * 1e9)
        while len(self._ready) < count and self._ready_bytes < _AHEAD_BYTES:
            if monotonic_ns() >= end_ns:
                return False
            exchange = self._start()
            self._ready.append(exchange)
            self._ready_bytes += len(exchange.request)
        return True

    def take(self, warmup: bool) -> Exchange:
        """The next request that waits for no other."""
        if self._warming and not warmup:
            self._warming = False
            if self._workload.renew():
                self._ready.clear()
                self._ready_bytes = 0
        if not self._ready:
            return self._numbered(self._start())
        exchange = self._ready.popleft()
        self._ready_bytes -= len(exchange.request)
        return self._numbered(exchange)

    def following(self, turn: Turn) -> Exchange:
        """The request of a turn that had to wait."""
        return self._numbered(self._build(turn))

    def unsent(self, due_ns: NDArray[np.int64], detail: str) -> Iterator[pa.RecordBatch]:
        """Rows for requests that will never be taken, without building them; ``due_ns`` as in unsent_batches."""
        names, asked = self._requests.models[:1], self._asked
        numbers = [self._share.number(self._sent + nth) for nth in range(len(due_ns))]
        if asked.models:
            names = tuple(self._models.pick(number) for number in numbers)
        output = asked.output_tokens
        same = {
            "stage": self._plan.index,
            "level": self._plan.value,
            "model": names[0] if names else None,
            "asked_input_tokens": self._plan.input_tokens if isinstance(self._plan.input_tokens, int) else None,
            "asked_output_tokens": output * self._choices if isinstance(output, int) else None,
        }
        return unsent_batches(same, numbers, due_ns, list(names), detail)

    def _numbered(self, exchange: Exchange) -> Exchange:
        exchange.index = self._share.number(self._sent)
        self._sent += 1
        return exchange

    def _start(self) -> Exchange:
        self._started += 1
        return self._build(self._workload.start(self._share.number(self._started - 1)))

    def _build(self, turn: Turn) -> Exchange:
        number = self._share.number(self._built)
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
