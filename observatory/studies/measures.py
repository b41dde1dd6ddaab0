"""What a study looks at: a statistic of a metric, and which way is better."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runners.metrics import BY_KEY, STATISTICS, Better, Metric, Shape


class DesignError(ValueError):
    """The design cannot be measured or judged. ``field`` names the part, the message says what to change."""

    def __init__(self, field: str, words: str) -> None:
        super().__init__(words)
        self.field = field


@dataclass(frozen=True)
class Measure:
    metric: Metric
    statistic: str
    better: Better

    @property
    def key(self) -> tuple[str, str]:
        return self.metric.key, self.statistic

    @property
    def label(self) -> str:
        return self.metric.label if self.metric.shape is Shape.RATE else f"{self.metric.label} {self.statistic}"


#: Every study shows these beside its own measures.
ACCOUNTS = (("wh_per_query", "mean"), ("usd_per_query", "mean"))


def read(listed: Any) -> tuple[Measure, ...]:
    """From a list of {"metric", "statistic", "better"}; what energy and money a query takes comes last.

    ``statistic`` is the mean when left out, ``better`` that of the metric. Raises DesignError.
    """
    if not isinstance(listed, list) or not listed:
        raise DesignError("measures", 'Give at least one, such as {"metric": "ttft_ms", "statistic": "p50"}.')
    found = [_one(item) for item in listed]
    if found[0].better is Better.NEITHER:
        words = f'Neither way is better for {found[0].label} by itself: say "better": "lower" or "higher".'
        raise DesignError("measures", words)
    known = {measure.key for measure in found}
    return (*found, *(_measure(*key) for key in ACCOUNTS if key not in known))


def _one(item: Any) -> Measure:
    if not isinstance(item, dict) or item.get("metric") not in BY_KEY:
        raise DesignError("measures", f"{item!r} names no metric. Known are {', '.join(BY_KEY)}.")
    statistic = item.get("statistic", "mean")
    metric = BY_KEY[item["metric"]]
    allowed: Iterable[str] = STATISTICS if metric.shape is Shape.DISTRIBUTION else ("mean",)
    if statistic not in allowed:
        raise DesignError("measures", f"{metric.label} has no {statistic}: choose one of {', '.join(allowed)}.")
    better = item.get("better", metric.better)
    if better not in set(Better):
        raise DesignError("measures", f'"better" of {metric.label} is lower or higher.')
    return _measure(metric.key, statistic, better)


def _measure(metric: str, statistic: str, better: str = "") -> Measure:
    return Measure(BY_KEY[metric], statistic, Better(better or BY_KEY[metric].better))
