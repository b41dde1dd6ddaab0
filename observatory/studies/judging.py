"""From an effect's interval to a word: does it lie on one side of none, and may it matter?"""

from observatory.studies.findings import Effect, Word
from observatory.studies.measures import Measure
from observatory.studies.statistics import Estimate
from runners.metrics import Better


def judged(measure: Measure, estimate: Estimate, relative: bool, smallest_percent: float) -> Effect:
    """``relative``: the estimate is arm / baseline, else a difference in the measure's unit; points are percent."""
    if estimate.low is None or estimate.high is None:
        return Effect(Word.UNCLEAR, estimate, relative, "it has no interval")
    low, high = (100 * (bound - 1) if relative else bound for bound in (estimate.low, estimate.high))
    bound = smallest_percent if relative or measure.metric.unit == "%" else 0.0
    if -bound <= low and high <= bound:
        return Effect(Word.NO_MATTER, estimate, relative)
    if low <= 0 <= high:
        return Effect(Word.UNCLEAR, estimate, relative, "the interval includes no effect")
    small = "it may be smaller than what matters" if min(abs(low), abs(high)) < bound else ""
    if measure.better is Better.NEITHER:
        return Effect(Word.HIGHER if low > 0 else Word.LOWER, estimate, relative, small)
    return Effect(
        Word.BETTER if (low > 0) == (measure.better is Better.HIGHER) else Word.WORSE, estimate, relative, small
    )
