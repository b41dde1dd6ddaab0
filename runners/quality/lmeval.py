"""Results of lm-evaluation-harness: ``results_*.json`` of its newer versions (0.4 on) and of the older ones (0.3).

Newer: metrics are keyed "metric,filter" with "metric_stderr,filter" beside them, and "n-samples", "n-shot", "configs",
"higher_is_better" and "group_subtasks" say more. Older: "metric" and "metric_stderr", one "num_fewshot" in "config".
Arguments of the model are left out of what is kept: they may hold keys.
"""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any

import orjson

from runners.quality.statistics import wilson
from runners.strict_json import SpecError

MAX_BYTES = 64_000_000
_Z = 1.959964
_STDERR = "_stderr"
#: Entries of a task that are no metrics.
_NOT_METRICS = ("alias", "name", "samples", "sample_len", "sample_count")
#: Metrics that are shares of right answers, the usual headline first.
_SHARES = ("acc", "acc_norm", "exact_match", "acc_norm_nosample", "em", "pass@1", "pass_at_1")


@dataclass(frozen=True)
class Score:
    """One metric of one task. ``low`` and ``high``: 95 %, from its standard error, else Wilson's where it is a share of
    known n; None where neither is known. ``group``: the value is made of other tasks' values.
    """

    task: str
    metric: str
    filter: str
    value: float
    stderr: float | None
    low: float | None
    high: float | None
    n: int | None
    shots: int | None
    higher_is_better: bool
    group: bool


@dataclass(frozen=True)
class LmEval:
    """A whole file. ``date`` is what the tool wrote, in UTC seconds; None where it did not."""

    model: str
    tool_version: str
    date: float | None
    scores: tuple[Score, ...]

    def headline(self) -> Score | None:
        """The accuracy of the whole, where one can be named: that of the only group or the only task."""
        shares = [score for score in self.scores if score.metric in _SHARES]
        groups = [score for score in shares if score.group]
        tasks = {score.task for score in groups or shares}
        if len(tasks) != 1:
            return None
        return min(groups or shares, key=lambda score: _SHARES.index(score.metric))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read(data: bytes) -> LmEval:
    """Raises SpecError that says what is wrong with the file."""
    if len(data) > MAX_BYTES:
        raise SpecError(f"the file has {len(data)} bytes and at most {MAX_BYTES} are read: leave out its samples")
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise SpecError(f"this is not JSON ({error}): give the results_*.json that lm-eval wrote") from None
    return parse(said)


def parse(said: Any) -> LmEval:
    """The same of a file's content."""
    results = said.get("results") if isinstance(said, dict) else None
    if not isinstance(results, dict) or not results:
        raise SpecError('there is no "results" in this file: give the results_*.json that lm-eval wrote')
    scores = [score for task, metrics in results.items() for score in _scores(said, str(task), metrics)]
    if not scores:
        raise SpecError('no task in "results" has a metric with a number')
    return LmEval(_model(said), _text(said.get("lm_eval_version")), _number(said.get("date")), tuple(scores))


def _scores(said: dict[str, Any], task: str, metrics: Any) -> list[Score]:
    if not isinstance(metrics, dict):
        raise SpecError(f"results.{task}: not an object with metrics")
    found = []
    for key, value in metrics.items():
        metric, _, rule = str(key).partition(",")
        number = _number(value)
        if metric in _NOT_METRICS or metric.endswith(_STDERR) or number is None:
            continue
        stderr = _number(metrics.get(f"{metric}{_STDERR},{rule}" if rule else f"{metric}{_STDERR}"))
        n = _n(said, task, metrics)
        low, high = _interval(metric, number, stderr, n)
        found.append(
            Score(
                task=task,
                metric=metric,
                filter=rule,
                value=number,
                stderr=stderr,
                low=low,
                high=high,
                n=n,
                shots=_shots(said, task),
                higher_is_better=_find(said, "higher_is_better", task, metric) is not False and metric != "ppl",
                group=bool(_find(said, "group_subtasks", task)),
            )
        )
    return found


def _interval(metric: str, value: float, stderr: float | None, n: int | None) -> tuple[float | None, float | None]:
    """Shares stay between 0 and 1."""
    share = metric in _SHARES and 0 <= value <= 1
    if stderr is not None and stderr > 0:
        low, high = value - _Z * stderr, value + _Z * stderr
        return (max(0.0, low), min(1.0, high)) if share else (low, high)
    return wilson(round(value * n), n) if share and n else (None, None)


def _n(said: dict[str, Any], task: str, metrics: dict[str, Any]) -> int | None:
    told = _find(said, "n-samples", task, "effective")
    told = told if told is not None else metrics.get("sample_len")
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


def _shots(said: dict[str, Any], task: str) -> int | None:
    told = _find(said, "n-shot", task)
    told = told if told is not None else _find(said, "configs", task, "num_fewshot")
    told = told if told is not None else _find(said, "config", "num_fewshot")
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def _model(said: dict[str, Any]) -> str:
    named = _text(said.get("model_name"))
    if named:
        return named
    arguments = _find(said, "config", "model_args")
    if isinstance(arguments, dict):
        parts = {str(key): str(value) for key, value in arguments.items()}
    else:
        parts = dict(part.split("=", 1) for part in _text(arguments).split(",") if "=" in part)
    return parts.get("pretrained") or parts.get("model") or _text(_find(said, "config", "model"))


def _find(said: Any, *path: str) -> Any:
    for name in path:
        said = said.get(name) if isinstance(said, dict) else None
    return said


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    """A finite number; "N/A", null and NaN are missing."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if known else None
