from datetime import date

import pytest

from observatory.catalog.models import Site
from tests.api.conftest import Caller
from tests.factories import finished_run
from tests.simulation import Plan

pytestmark = pytest.mark.django_db


def test_a_run_is_counted_again_beside_what_it_was_queued_with(as_user: Caller) -> None:
    run = finished_run(plan=Plan(levels=(1,), requests=30, pue=1.3))
    run.deployment.site = Site.objects.create(slug="hall", name="Hall")
    run.deployment.site.factors.create(effective_from=date(2026, 1, 1), pue=1.1)
    run.deployment.save()
    made = as_user.post(f"/runs/{run.pk}/pricings", {"day": "2026-02-03"})
    assert (made.status_code, made.json()["day"], made.json()["factors"]["pue"]) == (201, "2026-02-03", 1.1)
    listed = as_user.get(f"/runs/{run.pk}/pricings").json()
    assert [(item["id"], item["factors"]["pue"]) for item in listed["items"]] == [(None, 1.3), (made.json()["id"], 1.1)]
    assert run.pricings.get().made_by.username == "una"


@pytest.mark.parametrize("day", ["soon", "2026-13-01", 5, None])
def test_a_day_that_is_none_is_refused(as_user: Caller, day: object) -> None:
    run = finished_run(plan=Plan(levels=(1,), requests=30))
    answer = as_user.post(f"/runs/{run.pk}/pricings", {"day": day})
    assert answer.status_code == 422
    assert answer.json()["fields"][0]["field"] == "day"
    assert not run.pricings.exists()
