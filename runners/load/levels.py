"""The repeats of each level added up: what changes from run to run, which no single stage can tell."""

from math import sqrt
from typing import Any

import numpy as np

from runners.metrics import STATISTICS

#: 97.5 % points of Student's t for 1 to 29 degrees of freedom.
_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045,
)  # fmt: skip


def by_level(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """{load, stages, metrics: {key: {statistic: {mean, low, high, n}}}} of each level that was run more than once.

    ``mean`` is over the repeats, ``low`` to ``high`` its 95 % interval by Student's t, ``n`` the number of repeats that
    have the statistic. A repeat that failed is not counted.
    """
    found: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for stage in stages:
        found.setdefault((stage["load"]["kind"], stage["load"]["value"]), []).append(stage)
    return [_level(repeats) for repeats in found.values() if repeats[-1]["repeat"] > 1]


def _level(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    sound = [stage for stage in repeats if stage["verdict"] == "ok"]
    keys = list(dict.fromkeys(key for stage in sound for key in stage["metrics"]))
    return {
        "load": repeats[0]["load"],
        "stages": [stage["index"] for stage in repeats],
        "metrics": {key: _statistics([stage["metrics"].get(key) for stage in sound]) for key in keys},
    }


def _statistics(metrics: list[dict[str, Any] | None]) -> dict[str, Any]:
    result = {}
    for name in STATISTICS:
        values = [metric[name] for metric in metrics if metric and metric[name] is not None]
        if values:
            result[name] = t_interval(values)
    return result


def t_interval(values: list[float]) -> dict[str, Any]:
    """{mean, low, high, n}; without bounds below two values."""
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return {"mean": mean, "low": None, "high": None, "n": n}
    half = _T975[n - 2] * float(np.std(values, ddof=1)) / sqrt(n)
    return {"mean": mean, "low": mean - half, "high": mean + half, "n": n}
