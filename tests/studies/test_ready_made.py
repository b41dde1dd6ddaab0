"""Ready-made studies as data: each can be made, in both forms, and says what it cannot show."""

import re

import pytest

from observatory.catalog.models import Endpoint
from observatory.studies import measures, ready_made
from observatory.studies.models import Study
from observatory.studies.prediction import SERVER_SHARES, Subject, predict
from observatory.studies.ready_made import READY_MADE, ReadyMade

pytestmark = pytest.mark.django_db

PREDICTED = [ready for ready in READY_MADE if ready.prediction]


@pytest.mark.parametrize("short", [False, True], ids=["full", "short"])
@pytest.mark.parametrize("ready", READY_MADE, ids=[ready.slug for ready in READY_MADE])
def test_each_can_be_made_with_the_deployments_that_it_needs(ready: ReadyMade, short: bool) -> None:
    study = ready_made.make(ready.shortened() if short else ready, "mine", None)
    arms = list(study.arms.select_related("deployment__endpoint"))
    assert len(arms) == (len(ready.short.arms) if short and ready.short.arms else len(ready.arms))
    assert {arm.deployment.endpoint.recipe["engine"] for arm in arms} <= ready.engines
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


class Measured(dict[tuple[str, str], float]):
    """Some number for whatever is asked: shares of the server are parts of 1."""

    def get(self, key: tuple[str, str], default: object = None) -> float:
        return 0.5 if key[0] in SERVER_SHARES else 40.0


@pytest.mark.parametrize("ready", PREDICTED, ids=[ready.slug for ready in PREDICTED])
def test_every_arm_has_a_prediction_once_it_is_measured(ready: ReadyMade) -> None:
    study = ready_made.make(ready, "mine", None)
    arms = study.arms.select_related("deployment__endpoint")
    subjects = [Subject(arm.name, arm.deployment, arm.theory, Measured()) for arm in arms]
    found = predict(study.prediction, measures.read(study.measures)[0], subjects)
    assert [predicted.reason for predicted in found] == [""] * len(subjects)
    assert all(predicted.value for predicted in found)


def test_all_but_one_are_predicted() -> None:
    assert len(PREDICTED) >= len(READY_MADE) - 1


def test_an_arm_is_told_by_its_settings_in_the_words_of_its_engine() -> None:
    _, _, _, cached = ready_made.BY_SLUG["prefix-caching"].arms
    assert "cache_prompt=on" in cached.words
    assert cached.words.endswith(
        "; workload.source.kind=prefixes; workload.source.groups=1; workload.source.prefix_tokens=384"
    )
    told = [arm.words for study in ready_made.BY_SLUG.values() for arm in study.arms]
    assert [words for words in told if re.search(r"=[{\[]['\d]|True|False", words)] == []
