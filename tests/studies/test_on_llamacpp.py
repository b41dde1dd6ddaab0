"""Ready-made studies for real, in short: the worker starts llama.cpp, measures it, and ends it, arm after arm.

One of them runs always; ``make studies`` runs all.
"""

import os
import sys

import pytest

from observatory.runs.models import Measurement
from observatory.studies import ready_made, trials, verdict
from observatory.studies.models import Slot, Trial
from observatory.studies.ready_made import READY_MADE
from tests.services.site import Site, wait_for

ALWAYS = "prefix-caching"
MINUTES_S = 600


@pytest.mark.parametrize(
    "slug",
    [
        pytest.param(
            ready.slug,
            marks=pytest.mark.skipif(
                ready.slug != ALWAYS and os.environ.get("STUDIES") != "1", reason="takes minutes: make studies"
            ),
        )
        for ready in READY_MADE
        if "vllm" not in ready.engines
    ],
)
def test_each_arm_is_measured_on_an_engine_of_its_own(site: Site, slug: str) -> None:
    site.variables["RUN_COMMAND"] = f"{sys.executable} -m runners bench"
    site.worker("bench")
    trial = trials.start(ready_made.make(ready_made.BY_SLUG[slug].shortened(), slug, None, repeats=1), "api")
    wait_for(lambda: Trial.objects.get(pk=trial.pk).ended, MINUTES_S, f"for {slug}")
    slots = list(trial.slots.select_related("run", "arm"))
    assert [(slot.arm.name, slot.run.status, slot.run.reason_code) for slot in slots if slot.run] == [
        (slot.arm.name, "finished", "" if slot.run and slot.run.valid else "stage_client_limited") for slot in slots
    ]
    if trial.study.quality:
        answered = verdict.of(trial).quality
        assert all(one.found is not None and one.found.n == 12 for one in answered.arms)
        assert all(one.agreement is not None for one in answered.arms[1:])
    if slug == ALWAYS:
        off, on = (cached(slot) for slot in slots)
        assert off < 5
        assert on > 50


def cached(slot: Slot) -> float:
    """Percent of the prompt tokens that the server took from its cache."""
    return Measurement.objects.get(run=slot.run, metric="cached_share", statistic="mean").value
