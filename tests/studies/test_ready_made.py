"""Ready-made studies as data: each can be made, in both forms, and says what it cannot show."""

import pytest

from observatory.catalog.models import Endpoint
from observatory.studies import measures, ready_made
from observatory.studies.models import Study
from observatory.studies.ready_made import READY_MADE, ReadyMade
from observatory.theory.registry import BY_NAME

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("short", [False, True], ids=["full", "short"])
@pytest.mark.parametrize("ready", READY_MADE, ids=[ready.slug for ready in READY_MADE])
def test_each_can_be_made_with_the_deployments_that_it_needs(ready: ReadyMade, short: bool) -> None:
    study = ready_made.make(ready.shortened() if short else ready, "mine", None)
    arms = list(study.arms.select_related("deployment__endpoint"))
    assert len(arms) == (len(ready.short.arms) if short and ready.short.arms else len(ready.arms))
    assert all(arm.deployment.endpoint.recipe["engine"] in ("llama.cpp", "router") for arm in arms)
    assert all(arm.deployment.accelerator_group for arm in arms)
    assert study.look_for
    assert study.limits
    assert measures.read(study.measures)[0].better in ("lower", "higher")


def test_numbers_and_names_are_each_their_own() -> None:
    assert len({ready.number for ready in READY_MADE}) == len({ready.slug for ready in READY_MADE}) == len(READY_MADE)


def test_equal_recipes_share_a_deployment_also_between_studies() -> None:
    ready = ready_made.BY_SLUG["two-phases"]
    for name in ("one", "two"):
        ready_made.make(ready, name, None)
    assert Endpoint.objects.count() == 1
    assert Study.objects.count() == 2


def test_predictions_name_calculators_that_there_are() -> None:
    named = [ready.prediction["calculator"] for ready in READY_MADE if ready.prediction]
    assert set(named) <= set(BY_NAME)
    assert len(named) >= len(READY_MADE) - 1
