"""Which stages a run has and in what order: fixed beforehand, or one after the other as a search goes on."""

from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from runners.load.shares import Share
from runners.loads import long_name
from runners.sources import Tokens
from runners.spec import Arrivals, RunSpec


@dataclass(frozen=True)
class StagePlan:
    """``kind`` and ``value`` name the stage's load (runners.loads); ``level`` is what its pacing is given. They differ
    in a length sweep only, whose value is the prompt length. ``repeat`` counts from 1. Level and ``requests`` are those
    of the whole run; ``share`` is what this process carries of it.
    """

    index: int
    kind: str
    value: float
    level: float
    input_tokens: Tokens
    repeat: int = 1
    requests: int | None = None
    share: Share = field(default_factory=Share)

    @property
    def load(self) -> dict[str, Any]:
        return {"kind": self.kind, "value": self.value}

    @property
    def name(self) -> str:
        return long_name(self.kind, self.value)


class Course(Protocol):
    """Asked for the next stage until there is none. ``total`` is how many there will be, at most."""

    total: int

    def next(self) -> StagePlan | None:
        """The stage to run now; None at the end."""

    def add(self, stage: dict[str, Any]) -> None:
        """The summary of the stage that was run last."""

    def findings(self) -> dict[str, Any]:
        """What the stages together say, by its name in the run's summary."""


def load_kind(arrivals: Arrivals) -> str:
    return {Arrivals.CLOSED: "concurrency", Arrivals.REPLAY: "speed"}.get(arrivals, "rate")


def stage_at(spec: RunSpec, index: int, level: float, requests: int | None = None) -> StagePlan:
    """A stage of the plain kind at ``level``; ``requests`` other than the specification's where given."""
    kind = load_kind(spec.load.arrivals)
    requests, share = requests or spec.load.requests, Share.of(spec, level)
    return StagePlan(index, kind, level, level, spec.workload.input_tokens, requests=requests, share=share)


def fixed_stages(spec: RunSpec) -> list[StagePlan]:
    """Every level once, then all of them again for each repeat, so that what drifts meets all levels alike."""
    load, sweep = spec.load, spec.workload.input_sweep
    once = [stage_at(spec, index, level) for index, level in enumerate(load.levels)]
    if sweep:
        one = once[0]
        once = [
            replace(one, index=index, kind="input_tokens", value=tokens, input_tokens=tokens)
            for index, tokens in enumerate(sweep)
        ]
    return [
        replace(plan, index=repeat * len(once) + plan.index, repeat=repeat + 1)
        for repeat in range(load.repeats)
        for plan in once
    ]


class Fixed:
    """The stages that the specification names."""

    def __init__(self, spec: RunSpec) -> None:
        self._stages = fixed_stages(spec)
        self.total = len(self._stages)
        self._taken = 0

    def next(self) -> StagePlan | None:
        if self._taken == self.total:
            return None
        self._taken += 1
        return self._stages[self._taken - 1]

    def add(self, stage: dict[str, Any]) -> None:
        pass

    def findings(self) -> dict[str, Any]:
        return {}
