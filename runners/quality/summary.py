"""From answers to what quality.json says (docs/quality.md)."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from runners.load.judgement import reason
from runners.load.outcomes import HELP, Outcome
from runners.quality.agreement import agreement
from runners.quality.answers import Answer
from runners.quality.statistics import share

#: Above this share of tasks without an answer the accuracy of the others is not used.
MAX_UNANSWERED_SHARE = 0.05


def accuracy(answers: Sequence[Answer]) -> dict[str, Any]:
    """{count, n, share, low, high, unanswered, unreadable}: right answers over those given, with Wilson's interval.

    ``unanswered``: failed requests, in neither number. ``unreadable``: answers in which nothing of the kind asked for
    was found; these are wrong.
    """
    given = [answer for answer in answers if answer.answered]
    return share(sum(bool(answer.correct) for answer in given), len(given)) | {
        "unanswered": len(answers) - len(given),
        "unreadable": sum(answer.found is None for answer in given),
    }


def score(answers: Sequence[Answer]) -> dict[str, Any]:
    """{overall, kinds, topics}."""
    kinds = sorted({answer.kind for answer in answers})
    topics = sorted({answer.topic for answer in answers if answer.topic})
    return {
        "overall": accuracy(answers),
        "kinds": {kind: accuracy([one for one in answers if one.kind == kind]) for kind in kinds},
        "topics": {topic: accuracy([one for one in answers if one.topic == topic]) for topic in topics},
    }


def failures(answers: Sequence[Answer]) -> dict[str, Any]:
    """{outcome: {count, example, help}}."""
    failed = [answer for answer in answers if not answer.answered]
    return {
        outcome: {
            "count": count,
            "example": next(one.detail for one in failed if one.outcome == outcome),
            "help": HELP[Outcome(outcome)],
        }
        for outcome, count in Counter(one.outcome for one in failed).most_common()
    }


def result(answers: Sequence[Answer], who: str, asked: dict[str, Any]) -> dict[str, Any]:
    """One endpoint's part: ``asked`` says in which form, ``valid`` whether its accuracy may be used."""
    reasons = _reasons(answers, who, asked)
    return {
        "target": asked,
        "score": score(answers),
        "failures": failures(answers),
        "valid": not any(item["code"] == "too_many_failed" for item in reasons),
        "reasons": reasons,
    }


def _reasons(answers: Sequence[Answer], who: str, asked: dict[str, Any]) -> list[dict[str, str]]:
    failed = sum(not answer.answered for answer in answers)
    found = []
    if failed > MAX_UNANSWERED_SHARE * len(answers):
        worst, fact = next(iter(failures(answers).items()))
        found.append(
            reason(
                "too_many_failed",
                f"{who} left {failed} of {len(answers)} tasks unanswered, most by {worst} "
                f"({fact['example'] or fact['help']}): the others may not stand for all. Mend that and run again.",
            )
        )
    if not asked["greedy"]:
        found.append(reason("not_greedy", f"{who} refuses to be told a temperature: its answers may vary by chance."))
    return found


def quality(
    target: dict[str, Any], answers: Sequence[Answer], reference: dict[str, Any] | None, others: Sequence[Answer]
) -> dict[str, Any]:
    """Both parts and how far they agree."""
    reasons = [*target["reasons"], *(reference["reasons"] if reference else ())]
    return {
        **target,
        "valid": target["valid"] and (reference is None or reference["valid"]),
        "reasons": reasons,
        "reference": reference,
        "agreement": agreement(others, answers) if reference else None,
    }
