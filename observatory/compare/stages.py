"""What is compared: one load level of one run, with all that decides whether it may be compared."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from runners.loads import long_name

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Number:
    """A statistic of a metric; ``low`` and ``high`` are its 95 % interval where one is known."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None
    mark: str = "measured"


@dataclass(frozen=True)
class StageResult:
    """``input_tokens`` and ``output_tokens`` are what was asked for, ``work`` is the kind of workload. ``numbers`` are
    keyed by (metric, statistic); ``samples`` hold a value per good request, in its unit, and of "accuracy" one per task
    of ``task_set``: 1 right, 0 wrong, NaN unanswered. ``energy_shared``: its board serves others too;
    ``energy_reason``: why it has no energy, where that is known.
    """

    label: str
    run_id: int
    stage_index: int
    load_kind: str
    load_value: float
    run_valid: bool | None
    run_reason: str
    verdict: str
    definitions_version: int | None
    input_tokens: int | str | None
    output_tokens: int | str | None
    work: str = "synthetic"
    slo: Mapping[str, float] = field(default_factory=dict)
    energy_boundary: str | None = None
    energy_mark: str | None = None
    energy_short: bool = False
    energy_shared: bool = False
    energy_reason: str = ""
    price_basis: str | None = None
    numbers: Mapping[tuple[str, str], Number] = field(default_factory=dict)
    samples: Mapping[str, FloatArray] = field(default_factory=dict)
    setup: Mapping[str, Any] = field(default_factory=dict)
    task_set: str = ""

    @property
    def load(self) -> str:
        """Such as "concurrency 4" or "2.5 req/s"."""
        return long_name(self.load_kind, self.load_value)

    def mean(self, metric: str) -> float | None:
        number = self.numbers.get((metric, "mean"))
        return None if number is None else number.value
