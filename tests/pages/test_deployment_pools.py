"""The accelerators of a deployment: a row of its form for each pool."""

from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from observatory.catalog.models import Accelerator, Deployment
from tests import factories

pytestmark = pytest.mark.django_db


@pytest.fixture
def card(db: None) -> Accelerator:
    return Accelerator.objects.create(slug="card", name="Card", vendor="Maker")


def sent(endpoint: int, *rows: dict[str, Any], stored: int = 0, **more: Any) -> dict[str, Any]:
    form = {"name": "apart", "endpoint": endpoint, "tensor_parallel": 1, "pipeline_parallel": 1, "replicas": 1, **more}
    form |= {"pools-TOTAL_FORMS": len(rows), "pools-INITIAL_FORMS": stored}
    return form | {f"pools-{number}-{name}": value for number, row in enumerate(rows) for name, value in row.items()}


def test_pools_are_rows_of_the_deployments_form(staff_client: Client, card: Accelerator) -> None:
    endpoint = factories.benchmark().deployment.endpoint_id
    prefill = {"name": "prefill", "accelerator": card.pk, "count": 1, "gpus": "0", "usd_per_hour": "4"}
    decode = {"name": "decode", "accelerator": card.pk, "count": 2, "usd_per_hour": "6.5"}
    empty = {"name": "", "accelerator": "", "count": 1}
    answer = staff_client.post("/deployments/new", sent(endpoint, prefill, decode, empty))
    assert answer.status_code == 302
    made = Deployment.objects.get(name="apart")
    assert (made.hardware, made.usd_per_hour) == ("prefill 1x Card + decode 2x Card", Decimal("10.5"))
    html = staff_client.get(made.get_absolute_url()).content.decode()
    assert "GPU 0" in html
    kept = [{**row, "id": pool.pk} for row, pool in zip((prefill, decode), made.pool_list, strict=True)]
    gone = {**kept[0], "DELETE": "on"}
    alone = {**kept[1], "name": "", "usd_per_hour": ""}
    answer = staff_client.post(f"/deployments/{made.pk}/edit", sent(endpoint, gone, alone, stored=2))
    assert answer.status_code == 302
    assert Deployment.objects.get(name="apart").hardware == "2x Card"


@pytest.mark.parametrize(
    ("rows", "more", "words"),
    [
        (({"name": "a"}, {"name": "b"}), {}, "name the GPUs of all pools but one"),
        (({"name": "a", "gpus": "0"}, {}), {}, "give each pool a name"),
        (({"name": "a", "gpus": "0,1"}, {"name": "b"}), {}, "a has 1 accelerators and names 2 GPUs. Give as many."),
        (({"name": "a", "gpus": "0", "usd_per_hour": 1}, {"name": "b"}), {}, "of each pool, or of none"),
        (({"usd_per_hour": 2},), {"usd_per_hour": 3}, "The pools make 2 $/h together: give that, or leave it empty."),
        (({},), {"runs_on_cpu": "on"}, "Give it accelerators or the CPU, not both."),
        (({"name": "<b>"},), {}, "Letters and digits, such as prefill or decode."),
        (({"accelerator": "", "name": "a"},), {}, "This field is required."),
        (({"count": 0},), {}, "greater than or equal to 1"),
    ],
)
def test_pools_that_do_not_fit_are_refused_in_words_and_nothing_is_lost(
    staff_client: Client, card: Accelerator, rows: tuple[dict[str, Any], ...], more: dict[str, Any], words: str
) -> None:
    endpoint = factories.benchmark().deployment.endpoint_id
    filled = [{"accelerator": card.pk, "count": 1, **row} for row in rows]
    answer = staff_client.post("/deployments/new", sent(endpoint, *filled, price_source="my invoice", **more))
    assert answer.status_code == 200
    html = answer.content.decode()
    assert words in html.replace("&#x27;", "'").replace("&lt;", "<")
    assert "my invoice" in html
    assert not Deployment.objects.filter(name="apart").exists()
