"""Quality of a trial for programs: rows with the columns of the measures, and all of it as JSON."""

from typing import Any

from observatory.studies.findings import ArmQuality, Quality
from observatory.studies.quality import ACCURACY


def flat(quality: Quality) -> list[dict[str, Any]]:
    """Rows "accuracy" and "identical_answers" (%) and "mcnemar_p", one an arm; none where nothing is asked or known."""
    if not (quality.asked or quality.known):
        return []
    return [
        *(_accuracy(found) for found in quality.arms),
        *(_identical(found) for found in quality.arms),
        *(_p_value(found) for found in quality.arms),
    ]


def _row(found: ArmQuality, metric: str, statistic: str, unit: str, **values: Any) -> dict[str, Any]:
    effect, deployment = found.effect, found.arm.deployment
    return {
        "metric": metric,
        "statistic": statistic,
        "unit": unit,
        "arm": found.arm.name,
        "deployment": deployment.name,
        "x": found.arm.x,
        "value": None,
        "value_low": None,
        "value_high": None,
        "repeats": 1 if found.found else 0,
        "questions": found.found.n if found.found else None,
        "mark": "measured",
        "effect": None,
        "effect_value": None,
        "effect_low": None,
        "effect_high": None,
        "verdict": effect.word.value if effect else "baseline",
        "reason": found.reason or (effect.reason if effect else ""),
        "predicted": None,
        "predicted_reason": "",
        "measured_over_predicted": None,
        **values,
    }


def _accuracy(found: ArmQuality) -> dict[str, Any]:
    result, estimate = found.found, found.effect.estimate if found.effect else None
    return _row(
        found,
        ACCURACY.metric.key,
        "mean",
        "%",
        value=_percent(result.value if result else None),
        value_low=_percent(result.low if result else None),
        value_high=_percent(result.high if result else None),
        effect="difference" if estimate else None,
        effect_value=estimate.value if estimate else None,
        effect_low=estimate.low if estimate else None,
        effect_high=estimate.high if estimate else None,
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def _identical(found: ArmQuality) -> dict[str, Any]:
    share = found.agreement["identical"] if found.agreement else {}
    value, low, high = (_percent(share.get(name)) for name in ("share", "low", "high"))
    return _row(found, "identical_answers", "mean", "%", value=value, value_low=low, value_high=high)


def _p_value(found: ArmQuality) -> dict[str, Any]:
    return _row(found, "mcnemar_p", "p", "", value=found.agreement["flips"]["p_value"] if found.agreement else None)


def to_json(quality: Quality) -> dict[str, Any] | None:
    """Null where nothing is asked or known. Shares are from 0 to 1, differences in points."""
    if not (quality.asked or quality.known):
        return None
    return {
        "task_set": quality.task_set,
        "tasks_sha256": quality.sha256,
        "measured_in_trial": quality.asked,
        "arms": [_arm(found) for found in quality.arms],
    }


def _arm(found: ArmQuality) -> dict[str, Any]:
    result, effect = found.found, found.effect
    estimate = effect.estimate if effect else None
    return {
        "arm": found.arm.name,
        "result_id": result.pk if result else None,
        "run_id": result.job_id if result else None,
        "source": result.source if result else None,
        "accuracy": result.value if result else None,
        "low": result.low if result else None,
        "high": result.high if result else None,
        "questions": result.n if result else None,
        "verdict": effect.word.value if effect else "baseline",
        "reason": found.reason or (effect.reason if effect else ""),
        "difference_points": estimate.value if estimate else None,
        "difference_low": estimate.low if estimate else None,
        "difference_high": estimate.high if estimate else None,
        "agreement": {
            name: found.agreement[name] for name in ("paired", "identical", "first_difference", "logprobs", "flips")
        }
        if found.agreement
        else None,
    }
