"""What an evaluation is asked to do: a frozen dataclass, versioned JSON in and out. It holds no secret."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from runners.budget import Budget, complaint
from runners.load.dialects import form
from runners.quality.tasks import Task, TaskSet, built_in
from runners.spec import Extent, Target, Timeouts, check_target
from runners.strict_json import SpecError, build

QUALITY_VERSION = 1
_MAX_CONCURRENCY, _MAX_OUTPUT_TOKENS = 512, 100_000


@dataclass(frozen=True)
class QualitySpec:
    """``tasks`` are put to ``target``, and to ``reference`` too where there is one, greedily (temperature 0 and
    ``seed``), ``concurrency`` at a time, for at most ``output_tokens`` unless a task says otherwise.
    """

    target: Target
    tasks: TaskSet = field(default_factory=built_in)
    reference: Target | None = None
    concurrency: int = 4
    output_tokens: int = 48
    seed: int = 0
    timeouts: Timeouts = field(default_factory=Timeouts)
    budget: Budget = field(default_factory=Budget)
    version: int = QUALITY_VERSION

    def __post_init__(self) -> None:
        """Raises SpecError that names the field and the fix."""
        if self.version != QUALITY_VERSION:
            raise SpecError(f"version: {self.version} is not known here; this is version {QUALITY_VERSION}")
        for target in self.targets:
            check_target(target)
            if not form(target.dialect).generates:
                raise SpecError(f"target.dialect: {target.dialect} gives no text that could be right or wrong")
        if not 1 <= self.concurrency <= _MAX_CONCURRENCY:
            raise SpecError(f"concurrency: between 1 and {_MAX_CONCURRENCY} requests at a time")
        if not 1 <= self.output_tokens <= _MAX_OUTPUT_TOKENS:
            raise SpecError(f"output_tokens: between 1 and {_MAX_OUTPUT_TOKENS}")
        if any(not seconds > 0 for seconds in dataclasses.asdict(self.timeouts).values()):
            raise SpecError("timeouts: each above 0 seconds")
        self._check_budget(self.tasks.tasks)

    @property
    def targets(self) -> tuple[Target, ...]:
        return (self.target,) if self.reference is None else (self.target, self.reference)

    def extent(self) -> Extent:
        """The most that the evaluation can be."""
        tasks = self.tasks.tasks
        return Extent(len(self.targets), len(tasks), **longest(tasks, self.output_tokens))

    def length(self, task: Task) -> int:
        """Output tokens asked for."""
        return task.output_tokens or self.output_tokens

    def _check_budget(self, tasks: Sequence[Task]) -> None:
        trouble = complaint(
            self.budget,
            stages=len(self.targets),
            requests=len(tasks),
            warmup_s=0,
            unbounded=["target.extra_body"] if any(target.extra_body for target in self.targets) else (),
            **longest(tasks, self.output_tokens),
        )
        if trouble:
            raise SpecError(trouble)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; ``from_json`` gives the same specification back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        spec = build(cls, data, "spec")
        assert isinstance(spec, cls)  # noqa: S101
        return spec


def longest(tasks: Sequence[Task], output_tokens: int) -> dict[str, int]:
    """The longest prompt and answer of a set, in tokens at most."""
    return {
        "input_tokens": max(task.most_input_tokens for task in tasks),
        "output_tokens": max(task.output_tokens or output_tokens for task in tasks),
    }
