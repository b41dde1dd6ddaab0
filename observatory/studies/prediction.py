"""What theory says each arm should measure, by the calculators of ``observatory.theory``.

    {"calculator": "decode-limit", "output": "step_ms", "as": "ratio", "inputs": {"batch": 1}}

``as`` says how the calculator's output becomes a value of the measure that decides:

value     it is the value
ratio     measured baseline × output of the arm / output of the baseline
speedup   the output is how many times as fast as the baseline the arm is

Inputs come, later ones first, from the arm, the study, and what the catalog knows of the arm's deployment; what is left
has the calculator's default. An input "baseline.NAME" or "arm.NAME" is taken from what was measured: NAME is a metric,
or METRIC.STATISTIC, or one of ``DERIVED`` or of ``SERVER_SHARES``; "* NUMBER" may follow.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from observatory.catalog import theory_facts
from observatory.catalog.models import Deployment
from observatory.studies.measures import DesignError, Measure
from observatory.theory.calculator import Calculator, Refused
from observatory.theory.fields import written
from observatory.theory.registry import BY_NAME
from runners.metrics import BY_KEY, Better

FORMS = ("value", "ratio", "speedup")

#: Means over repeats by (metric, statistic).
Numbers = Mapping[tuple[str, str], float]


def _over(numbers: Numbers, above: tuple[str, str], below: tuple[str, str], scale: float) -> float | None:
    high, low = numbers.get(above), numbers.get(below)
    return None if high is None or not low else scale * high / low


DERIVED: dict[str, Callable[[Numbers], float | None]] = {
    "prefill_tokens_per_s": lambda numbers: _over(numbers, ("input_tokens", "mean"), ("ttft_ms", "p50"), 1e3),
    "decode_steps_per_s": lambda numbers: 1e3 / tpot if (tpot := numbers.get(("tpot_ms", "p50"))) else None,
}


#: Shares that the server's own counters give (docs/server-metrics.md).
SERVER_SHARES = ("accepted_share", "prefix_hit_share", "sent_on_share")


@dataclass(frozen=True)
class Subject:
    """An arm as the theory sees it: ``numbers`` are what it measured."""

    name: str
    deployment: Deployment | None
    theory: Mapping[str, Any]
    numbers: Numbers


@dataclass(frozen=True)
class Predicted:
    """``value`` in the unit of the measure; without it ``reason`` says why. ``inputs`` as they were put in."""

    value: float | None
    reason: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    measured_inputs: tuple[str, ...] = ()


class _Unknown(Exception):
    pass


def check(prediction: Mapping[str, Any], theories: Sequence[Mapping[str, Any]]) -> None:
    """Raises DesignError for a prediction that no calculator could make. None at all is allowed."""
    if not prediction:
        return
    unknown = set(prediction) - {"calculator", "output", "as", "inputs"}
    calculator = BY_NAME.get(str(prediction.get("calculator")))
    if unknown or calculator is None:
        wrong = f"{sorted(unknown)[0]!r} is not known" if unknown else "No such calculator"
        raise DesignError(
            "prediction", f"{wrong}: give calculator, output, as, inputs; calculators are {_words(BY_NAME)}."
        )
    numeric = [column.name for column in calculator.columns if column.row is None and not column.is_words]
    if prediction.get("output") not in numeric:
        raise DesignError("prediction", f"output: {calculator.name} gives {_words(numeric)}.")
    if prediction.get("as") not in FORMS:
        raise DesignError("prediction", f"as: one of {_words(FORMS)}.")
    names = [entry.name for entry in calculator.entries]
    for given in (prediction.get("inputs", {}), *theories):
        for name, value in given.items():
            if name not in names:
                raise DesignError("prediction", f"{calculator.name} has no input {name!r}; it has {_words(names)}.")
            _check_reference(name, value)


def _check_reference(name: str, value: Any) -> None:
    if not _is_reference(value):
        return
    key, scale = _split(value)
    metric = key.partition(".")[0]
    if metric not in BY_KEY and key not in (*DERIVED, *SERVER_SHARES):
        known = _words((*DERIVED, *SERVER_SHARES))
        raise DesignError("prediction", f"{name}: {key!r} is neither a metric nor one of {known}.")
    if scale is None:
        raise DesignError(
            "prediction", f'{name}: what follows "*" must be a number, such as "baseline.tpot_ms * 0.001".'
        )


def _words(names: Any) -> str:
    return ", ".join(names)


def predict(prediction: Mapping[str, Any], measure: Measure, arms: Sequence[Subject]) -> list[Predicted]:
    """One for each arm; the first is the baseline."""
    calculator = BY_NAME[prediction["calculator"]]
    return [_arm(calculator, prediction, measure, arms[0], arm) for arm in arms]


def _arm(
    calculator: Calculator[Any, Any], prediction: Mapping[str, Any], measure: Measure, baseline: Subject, arm: Subject
) -> Predicted:
    form, output = prediction["as"], prediction["output"]
    try:
        inputs, measured = _inputs(calculator, prediction, baseline, arm)
        found = _run(calculator, inputs, output)
        if form == "value":
            return Predicted(found, "", inputs, measured)
        base = baseline.numbers.get(measure.key)
        if base is None:
            return Predicted(None, f"{baseline.name} has no measured {measure.label} to start from", inputs, measured)
        if form == "ratio":
            own, _ = _inputs(calculator, prediction, baseline, baseline)
            return Predicted(base * found / _run(calculator, own, output), "", inputs, measured)
        value = base * found if measure.better is Better.HIGHER else base / found
        return Predicted(base if arm is baseline else value, "", inputs, measured)
    except _Unknown as error:
        return Predicted(None, str(error))
    except ZeroDivisionError:
        return Predicted(None, f"{calculator.name} gives 0 for {output}")


def _run(calculator: Calculator[Any, Any], inputs: Mapping[str, str], output: str) -> float:
    try:
        found = getattr(calculator.run(calculator.read(inputs)), output)
    except Refused as error:
        raise _Unknown(f"{calculator.name} refuses its inputs: {error}") from None
    if found is None:
        raise _Unknown(f"{calculator.name} has no {output} for these inputs")
    return float(found)


def _inputs(
    calculator: Calculator[Any, Any], prediction: Mapping[str, Any], baseline: Subject, arm: Subject
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Inputs as text, and the names of those that were measured."""
    given = {**prediction.get("inputs", {}), **arm.theory}
    known = theory_facts.of_deployment(arm.deployment) if arm.deployment else {}
    whole = {entry.name for entry in calculator.entries if entry.is_whole}
    found = theory_facts.fitting(calculator, known)
    for name, value in given.items():
        if _is_reference(value):
            number = _looked_up(value, baseline, arm)
            found[name] = written(round(number) if name in whole else number)
        else:
            found[name] = written(value)
    return found, tuple(name for name, value in given.items() if _is_reference(value))


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("baseline.", "arm."))


def _split(reference: str) -> tuple[str, float | None]:
    """("tpot_ms.p50", 0.001) of "baseline.tpot_ms.p50 * 0.001"; None for a factor that is no number."""
    key, star, factor = reference.partition("*")
    name = key.strip().partition(".")[2]
    try:
        return name, float(factor) if star else 1.0
    except ValueError:
        return name, None


def _looked_up(reference: str, baseline: Subject, arm: Subject) -> float:
    subject = baseline if reference.startswith("baseline.") else arm
    name, factor = _split(reference)
    metric, _, statistic = name.partition(".")
    found = DERIVED[name](subject.numbers) if name in DERIVED else subject.numbers.get((metric, statistic or "mean"))
    if found is None:
        raise _Unknown(f"{subject.name} has no measured {name}")
    return found * (factor or 0.0)
