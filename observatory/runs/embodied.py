"""The carbon of making hardware in the form in which a run keeps it."""

from datetime import date
from typing import Any

from observatory.catalog.models import EmbodiedFactors

_KEPT = ("accelerator_made_kg", "server_made_kg", "accelerators_per_server", "lifetime_years", "source")


def known(slug: str, day: date) -> dict[str, Any] | None:
    """What holds for an accelerator on a day, with the day that it is of; None where nothing is known."""
    row = EmbodiedFactors.objects.of(slug, day)
    if row is None:
        return None
    return {**{name: getattr(row, name) for name in _KEPT}, "effective_from": row.effective_from.isoformat()}
