"""Quality beside the answer of a study, in plain English."""

from observatory.studies.findings import ArmQuality, Quality, Word
from observatory.studies.models import Arm
from observatory.studies.words import change, interval
from runners.metrics import significant

#: What is added to the verdict on speed.
_BESIDE = {
    Word.BETTER: "better answers",
    Word.WORSE: "worse answers",
    Word.IDENTICAL: "identical answers",
    Word.NO_MATTER: "no difference of quality that matters",
    Word.UNCLEAR: "no clear difference of quality",
    Word.REFUSED: "quality not known",
}


def beside(word: str, sentence: str, arm: Arm | None, quality: Quality) -> tuple[str, str]:
    """Verdict and sentence of ``arm`` with its quality added; as they are where nothing is asked or known yet."""
    found = next((one for one in quality.arms if one.arm == arm), None)
    if found is None or found.effect is None or found.waits or not (quality.asked or quality.known):
        return word, sentence
    joint = "but" if (word, found.effect.word) in ((Word.BETTER, Word.WORSE), (Word.WORSE, Word.BETTER)) else "with"
    verdict = f"{word}, {joint} {_BESIDE[found.effect.word]}"
    return verdict, f"{sentence} {told(quality, found)} Altogether: {verdict}."


def told(quality: Quality, found: ArmQuality) -> str:
    """Such as "Quality on basic: 34.0 % right against 36.0 %, 2.00 points lower (95 % interval 6.12 points lower to
    2.12 points higher, 100 questions; McNemar's p = 0.62); 81.0 % of the answers are identical."
    """
    effect, base = found.effect, quality.arms[0].found
    begin = f"Quality on {quality.task_set}"
    if effect is None or found.found is None or base is None or base.value is None or found.found.value is None:
        why = (effect.reason if effect else found.reason).rstrip(".")
        return f"{begin}: not known of {found.arm.name} ({why})."
    right = f"{100 * found.found.value:.1f} % right"
    if effect.word is Word.IDENTICAL:
        return f"{begin}: {right}, {_all_alike(found)}."
    words = f"{begin}: {right} against {100 * base.value:.1f} %"
    if effect.estimate is None:
        return f"{words} ({effect.reason})."
    return f"{words}, {change(effect, '%')} ({_spread(found)}){_alike(found)}."


def right(found: ArmQuality) -> str:
    """Such as "34.0 % right (25.5 to 43.7), 100 questions; 2.00 points lower: no clear difference"."""
    result, effect = found.found, found.effect
    if result is None or result.value is None:
        return f"– ({found.reason})"
    bounds = (
        "" if result.low is None or result.high is None else f" ({100 * result.low:.1f} to {100 * result.high:.1f})"
    )
    words = f"{100 * result.value:.1f} % right{bounds}, {result.n or '?'} questions"
    if effect is None:
        return words
    if effect.word is Word.IDENTICAL:
        return f"{words}; {effect.word}"
    amount = f"{change(effect, '%')}: " if effect.estimate else ""
    return f"{words}; {amount}{effect.word}{_alike(found)}"


def _all_alike(found: ArmQuality) -> str:
    if found.agreement is None:
        return found.effect.reason if found.effect else ""
    return f"and all {found.agreement['paired']} greedy answers are identical to those of the baseline"


def _spread(found: ArmQuality) -> str:
    effect = found.effect
    assert effect is not None and effect.estimate is not None  # noqa: S101, PT018
    parts = [f"95 % interval {interval(effect, '%')}"]
    if effect.estimate.n:
        parts.append(f"{effect.estimate.n} questions")
    if found.agreement:
        parts.append(f"McNemar's p = {significant(found.agreement['flips']['p_value'], 2)}")
    return ", ".join(parts)


def _alike(found: ArmQuality) -> str:
    if found.agreement is None:
        return ""
    return f"; {100 * found.agreement['identical']['share']:.0f} % of the answers are identical"


def quality_notes(quality: Quality) -> tuple[str, ...]:
    """What a reader must know of the numbers; nothing where there are none."""
    if not quality.known:
        return ()
    whence = (
        "Quality was measured once in this trial, greedily, after all repeats, each arm on an engine as it was for its "
        "runs"
        if quality.asked
        else "Quality is what is known of the deployments from outside this trial"
    )
    how = (
        "differences are judged by pairs (Bonett and Price) and count where McNemar's exact test finds them too"
        if any(one.agreement for one in quality.arms)
        else "differences follow from the intervals of both (Newcombe)"
    )
    together = "; they hold for all comparisons together" if len(quality.arms) > 2 and "pairs" in how else ""
    return (
        f"{whence}. Its intervals (95 %) are over the questions of {quality.task_set}, and say nothing of others; {how}"
        f"{together}.",
    )
