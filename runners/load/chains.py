"""Requests that wait for each other: a turn is held back until the one before it was answered."""

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

from runners.load.arrivals import ClosedLoop, OpenLoop, Span
from runners.load.workloads.base import Turn


@dataclass
class Chains:
    """A pacing of conversations. ``starts`` says when a new one begins; its "in flight" counts conversations. Turns
    that follow are sent when they are due, whatever ``starts`` says, while ``span`` lasts.
    """

    follows: ClassVar[bool] = True
    starts: ClosedLoop | OpenLoop
    span: Span
    following: Turn | None = None
    _open: int = 0
    _held: list[tuple[int, int, Turn]] = field(default_factory=list)
    _numbers: "count[int]" = field(default_factory=count)

    def next_due_ns(self, now_ns: int, in_flight: int) -> int | None:
        if self.ended(now_ns):
            return None
        start_ns = self.starts.next_due_ns(now_ns, self._open)
        if not self._held:
            return start_ns
        return self._held[0][0] if start_ns is None else min(start_ns, self._held[0][0])

    def ended(self, now_ns: int) -> bool:
        return self.span.ended(now_ns) or (self.starts.ended(now_ns) and not self._open)

    def take(self, now_ns: int) -> tuple[int, bool]:
        """Sets ``following`` to the turn to send; None: the first of a new conversation."""
        start_ns = self.starts.next_due_ns(now_ns, self._open)
        if self._held and (start_ns is None or self._held[0][0] <= start_ns):
            due_ns, _, self.following = heapq.heappop(self._held)
        else:
            due_ns, _ = self.starts.take(now_ns)
            self.following = None
            self._open += 1
        return due_ns, self.span.count(due_ns)

    def hold(self, turn: Turn, due_ns: int) -> None:
        """``turn`` is to be sent at ``due_ns``: the one before it has been answered."""
        heapq.heappush(self._held, (due_ns, next(self._numbers), turn))

    def close(self) -> None:
        """A conversation is over."""
        self._open -= 1
