"""A comparison as a sheet: a row per metric and stage, its value, and how it differs from the baseline."""

from observatory.compare.comparison import Comparison, flat_rows
from observatory.reports.sheets import Sheet

COLUMNS = (
    "metric",
    "statistic",
    "unit",
    "run",
    "stage",
    "label",
    "load",
    "value",
    "value_low",
    "value_high",
    "n",
    "mark",
    "delta",
    "delta_low",
    "delta_high",
    "ratio",
    "verdict",
    "reason",
)


def sheet(comparison: Comparison) -> Sheet:
    """Values and deltas are in the unit that the row names; the baseline has no delta."""
    return Sheet(COLUMNS, flat_rows(comparison))
