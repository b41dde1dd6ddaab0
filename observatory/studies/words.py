"""A study's result in plain English."""

from collections.abc import Sequence

from observatory.studies.findings import DECIDED, Cell, Effect, Missing, Row, Word
from observatory.studies.measured import ArmTurns, work_differs
from observatory.studies.models import Arm, Study
from observatory.studies.statistics import Estimate
from runners.metrics import display, significant


def answer(row: Row, arms: Sequence[Arm]) -> tuple[str, str, Arm | None]:
    """(verdict, sentence, arm): of the arm that stands furthest from the baseline among those that are decided; where
    the arms lie along a factor, of the last.
    """
    judged = [(arm, cell) for arm, cell in zip(arms, row.cells, strict=True) if cell.effect and cell.effect.estimate]
    if not judged:
        refusal = next((cell.effect.reason for cell in row.cells if cell.effect and cell.effect.reason), "")
        return Word.REFUSED, f"The arms cannot be compared{f': {refusal}' if refusal else ''}.", None
    along = all(arm.x is not None for arm in arms)
    arm, cell = judged[-1] if along else max(judged, key=lambda pair: _weight(pair[1]))
    assert cell.effect is not None  # noqa: S101
    return cell.effect.word, f"{sentence(row, arms[0], arm, cell)}{_theory(cell)}", arm


def _weight(cell: Cell) -> tuple[bool, float]:
    """Decided ones first, then the larger effect."""
    effect = cell.effect
    assert effect is not None and effect.estimate is not None  # noqa: S101, PT018
    value = effect.estimate.value
    size = max(value, 1 / value) if effect.relative else abs(value)
    return effect.word in DECIDED, size


def sentence(row: Row, baseline: Arm, arm: Arm, cell: Cell) -> str:
    """Such as "cache on: TTFT p50 is 62 % lower than with cache off (95 % interval 58 to 66 % lower, 5 repeats)"."""
    effect = cell.effect
    assert effect is not None and effect.estimate is not None  # noqa: S101, PT018
    amount = change(effect, row.measure.metric.unit)
    joint = "that of" if amount.endswith("times") else "than"
    repeats = f"{effect.estimate.n} repeat{'' if effect.estimate.n == 1 else 's'}"
    bounds = interval(effect, row.measure.metric.unit)
    spread = f"95 % interval {bounds}, {repeats}" if bounds else repeats
    return f"{arm.name}: {row.measure.label} is {amount} {joint} {baseline.name} ({spread}). Verdict: {effect.word}" + (
        f" ({effect.reason})." if effect.reason else "."
    )


def _theory(cell: Cell) -> str:
    if cell.measured_over_predicted is None:
        return ""
    return f" Measured / predicted: {significant(cell.measured_over_predicted, 2)}."


def change(effect: Effect, unit: str) -> str:
    """An effect in words: "12.3 % lower", "3.4 times", "5.1 points higher"."""
    assert effect.estimate is not None  # noqa: S101
    if _in_times(effect):
        return f"{significant(effect.estimate.value)} times"
    return _amount(effect.estimate.value, effect.relative, unit)


def interval(effect: Effect, unit: str) -> str:
    """Its bounds in words; empty without any."""
    found: Estimate | None = effect.estimate
    if found is None or found.low is None or found.high is None:
        return ""
    if _in_times(effect):
        return f"{significant(found.low)} to {significant(found.high)} times"
    return f"{_amount(found.low, effect.relative, unit)} to {_amount(found.high, effect.relative, unit)}"


def _in_times(effect: Effect) -> bool:
    """Percent are for what does not double; an effect and its bounds are told in the same way."""
    found = effect.estimate
    assert found is not None  # noqa: S101
    return effect.relative and max(found.value, found.high or 0) >= 2


def _amount(value: float, relative: bool, unit: str) -> str:
    if relative:
        return f"{significant(abs(value - 1) * 100)} % {'higher' if value >= 1 else 'lower'}"
    text = f"{significant(abs(value))} points" if unit == "%" else " ".join(display(abs(value), unit)).strip()
    return f"{text} {'higher' if value > 0 else 'lower'}" if value else text


def _server_words(turns: ArmTurns) -> str:
    """What the server's own counters say of the technique."""
    means = turns.means()
    names = {
        "accepted_share": "of the drafted tokens were accepted",
        "prefix_hit_share": "of the prompt came from the cache",
        "sent_on_share": "of the requests were asked of the large model",
    }
    found = [
        f"{significant(100 * means[name, 'mean'])} % {words}"
        for name, words in names.items()
        if (name, "mean") in means
    ]
    if (put_back := means.get(("preemptions", "mean"))) and (running := means.get(("requests_running", "mean"))):
        found.append(f"{significant(running)} requests were computed at once and {significant(put_back)} put back")
    return f"by the server's own counters {' and '.join(found)}" if found else ""


def notes(study: Study, row: Row, arms: Sequence[ArmTurns], missing: Sequence[Missing]) -> tuple[str, ...]:
    """What a reader must know before acting on the numbers."""
    compared = len(arms) - 1
    together = f" They hold for all {compared} comparisons together." if compared > 1 else ""
    found = [
        "Intervals (95 %) are over the repeats, by Student's t; effects are paired within a repeat, so that slow drift "
        f"of the machine cancels.{together} Differences below {study.smallest_effect_percent:g} % do not matter here."
    ]
    if work_differs(arms):
        found.append("The arms are given different work on purpose.")
    if missing:
        found.append(
            f"{len(missing)} of the turns gave nothing that can be used: the effects rest on the repeats that are left."
        )
    found += [f"{turns.arm.name}: {text}." for turns in arms if (text := _server_words(turns))]
    measured = sorted({name for cell in row.cells if cell.predicted for name in cell.predicted.measured_inputs})
    if measured:
        found.append(f"The prediction takes from the measurement: {', '.join(measured)}.")
    return tuple(found)
