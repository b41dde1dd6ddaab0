"""Intervals of rates, which the instrument gives as one number for a window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from observatory.compare.stages import FloatArray, Number
from runners.load.rows import StageRows
from runners.load.statistics import Ints
from runners.load.summary import meets_slo
from runners.quality.statistics import wilson

BATCHES = 20
#: Fewer requests than this in the window say too little about its batches.
MIN_REQUESTS = 40
_T_975_19 = 2.093  # Student's t, 19 degrees of freedom, 95 % two-sided

Numbers = dict[tuple[str, str], Number]


def batch_interval(stamps_ns: Ints, weights: FloatArray, start_ns: int, end_ns: int) -> tuple[float, float] | None:
    """95 % interval of weight per second in the window, by batch means: the window is cut into 20 equal parts, whose
    rates are nearly independent although single events are not (Law, Simulation Modeling and Analysis, 9.5.3).
    None without a window.
    """
    if end_ns <= start_ns:
        return None
    edges = np.linspace(start_ns, end_ns, BATCHES + 1)
    totals, _ = np.histogram(stamps_ns, bins=edges, weights=weights)
    rates = totals / ((end_ns - start_ns) / 1e9 / BATCHES)
    half = _T_975_19 * float(rates.std(ddof=1)) / np.sqrt(BATCHES)
    return float(max(0.0, rates.mean() - half)), float(rates.mean() + half)


def share_interval(percent: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share, all in percent."""
    low, high = wilson(round(percent / 100 * n), n)
    return 100 * low, 100 * high


def with_intervals(
    numbers: Mapping[tuple[str, str], Number],
    rows: StageRows | None,
    window: Mapping[str, Any] | None,
    slo: Mapping[str, float],
) -> Numbers:
    """``numbers`` with an interval for each rate that has none and can be given one."""
    found = dict(numbers)
    for metric in ("success_share", "goodput_share"):
        number = found.get((metric, "mean"))
        if number is not None and number.n and number.low is None:
            _bound(found, metric, share_interval(number.value, number.n))
    if rows is None or not window or not window.get("end_ns") or rows.good.sum() < MIN_REQUESTS:
        return found
    for metric, interval in _window_intervals(rows, window, slo).items():
        _bound(found, metric, interval)
    return _with_cost(found)


def _window_intervals(
    rows: StageRows, window: Mapping[str, Any], slo: Mapping[str, float]
) -> dict[str, tuple[float, float] | None]:
    span = int(window["start_ns"]), int(window["end_ns"])
    ok = rows.ok
    of, events, outputs = rows.token_events
    events, outputs = events[ok[of]], outputs[ok[of]]
    ended, first = rows.end_ns[ok], rows.ints("first_token_ns")[ok]
    inputs = np.maximum(rows.ints("input_tokens")[ok], 0).astype(np.float64)
    both = np.concatenate((events, first)), np.concatenate((outputs, inputs))
    return {
        "request_per_s": batch_interval(ended, np.ones(ended.size), *span),
        "goodput_per_s": batch_interval(ended, meets_slo(rows, slo)[ok].astype(np.float64), *span),
        "output_tokens_per_s": batch_interval(events, outputs, *span),
        "input_tokens_per_s": batch_interval(first, inputs, *span),
        "total_tokens_per_s": batch_interval(*both, *span),
    }


def _bound(numbers: Numbers, metric: str, interval: tuple[float, float] | None) -> None:
    number = numbers.get((metric, "mean"))
    if number is not None and number.low is None and interval is not None:
        low, high = min(interval[0], number.value), max(interval[1], number.value)
        numbers[metric, "mean"] = replace(number, low=low, high=high)


def _with_cost(numbers: Numbers) -> Numbers:
    """Money per token or query goes as 1 / rate: so do its bounds."""
    of = {
        "usd_per_mtok_output": "output_tokens_per_s",
        "usd_per_mtok_total": "total_tokens_per_s",
        "usd_per_query": "request_per_s",
    }
    for metric, rate in of.items():
        cost, speed = numbers.get((metric, "mean")), numbers.get((rate, "mean"))
        if cost and speed and speed.low and speed.high:
            _bound(numbers, metric, (cost.value * speed.value / speed.high, cost.value * speed.value / speed.low))
    return numbers
