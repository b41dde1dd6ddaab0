"""Continuous batching: requests join and leave the batch between two steps. Knows nothing of tensors or HTTP."""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


class Model(Protocol):
    """Serves ``slots`` requests at once, each of ``context`` tokens at most."""

    slots: int
    context: int

    def prefill(self, slot: int, tokens: Sequence[int]) -> int:
        """Takes in a prompt; the first token of its answer."""
        ...

    def decode(self, slots: Sequence[int]) -> list[int]:
        """One token more for each of these slots."""
        ...


@dataclass
class Request:
    """``emit`` is called on the batcher's thread with each token, then once with None; after ``cancelled`` is set
    nothing more is worked out for it.
    """

    tokens: Sequence[int]
    max_tokens: int
    emit: Callable[[int | None], None]
    cancelled: threading.Event = field(default_factory=threading.Event)
    done: int = 0


class Batcher:
    """One thread that admits one waiting request a step, then takes a step for all that run."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._waiting: queue.SimpleQueue[Request | None] = queue.SimpleQueue()
        self._running: dict[int, Request] = {}
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._stopped = False
        self.failure = ""

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._waiting.put(None)
        self._thread.join(10)

    def submit(self, request: Request) -> None:
        self._waiting.put(request)

    def _work(self) -> None:
        try:
            while not self._stopped:
                room = len(self._running) < self._model.slots
                if room and (request := self._next(block=not self._running)):
                    self._admit(request)
                self._step()
        except Exception as error:  # told to whoever asks, and every stream ends
            self.failure = f"{type(error).__name__}: {error}"
            for running in self._running.values():
                running.emit(None)
            self._running.clear()

    def _next(self, *, block: bool) -> Request | None:
        """The next one that somebody still waits for; None when there is none."""
        while True:
            try:
                request = self._waiting.get(block)
            except queue.Empty:
                return None
            if request is None or not request.cancelled.is_set():
                return request

    def _admit(self, request: Request) -> None:
        slot = min(set(range(self._model.slots)) - set(self._running))
        self._running[slot] = request
        self._give(slot, self._model.prefill(slot, request.tokens))

    def _step(self) -> None:
        for slot in [slot for slot, request in self._running.items() if request.cancelled.is_set()]:
            del self._running[slot]
        slots = sorted(self._running)
        if slots:
            for slot, token in zip(slots, self._model.decode(slots), strict=True):
                self._give(slot, token)

    def _give(self, slot: int, token: int) -> None:
        request = self._running[slot]
        request.done += 1
        request.emit(token)
        if request.done >= request.max_tokens:
            del self._running[slot]
            request.emit(None)
