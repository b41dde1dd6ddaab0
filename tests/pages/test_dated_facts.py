"""Prices and factors have dates: what changes is a new row, and what was stays."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client

from observatory.catalog.models import Accelerator, AcceleratorPrice, EmbodiedFactors, Endpoint, Site, today

pytestmark = pytest.mark.django_db


@pytest.fixture
def hall() -> Site:
    made = Site.objects.create(slug="hall", name="Hall")
    made.factors.create(effective_from=today() - timedelta(days=30), pue=1.4, source="meter")
    return made


def test_new_numbers_are_a_new_row_from_their_day_on(staff_client: Client, hall: Site) -> None:
    later = today() + timedelta(days=10)
    staff_client.post(f"/sites/{hall.pk}/edit", {"effective_from": later, "pue": "1.2", "source": "new chillers"})
    assert (hall.current.pue, hall.factors_on(later).pue) == (1.4, 1.2)
    assert [site.pue for site in Site.objects.on(later)] == [1.2]
    assert "new chillers" in staff_client.get(f"/sites/{hall.pk}/edit").content.decode()


def test_the_same_day_again_corrects_its_row(staff_client: Client, hall: Site) -> None:
    for pue in ("1.3", "1.25"):
        staff_client.post(f"/sites/{hall.pk}/edit", {"effective_from": today(), "pue": pue})
    assert hall.factors.count() == 2
    assert hall.current.pue == 1.25


@pytest.mark.parametrize("day", ["", "soon"])
def test_a_row_without_a_day_is_refused(staff_client: Client, hall: Site, day: str) -> None:
    answer = staff_client.post(f"/sites/{hall.pk}/edit", {"effective_from": day, "pue": "1.2"})
    assert answer.status_code == 200
    assert hall.factors.count() == 1


def test_the_list_of_sites_shows_what_holds_today(user_client: Client, hall: Site) -> None:
    hall.factors.create(effective_from=today() + timedelta(days=1), pue=1.1)
    row = user_client.get("/sites.json?q=hall").json()["rows"][0]
    assert (row["pue"], row["source"]) == (1.4, "meter")


def test_a_new_price_leaves_the_old_one_and_takes_its_place(staff_client: Client) -> None:
    card = Accelerator.objects.create(slug="card", name="Card", vendor="Maker")
    old = {"accelerator": card, "provider": "shop", "kind": "on-demand"}
    AcceleratorPrice.objects.create(**old, effective_from=today() - timedelta(days=9), usd_per_hour=Decimal(2))
    form = {"provider": "shop", "kind": "on-demand", "effective_from": today(), "usd_per_hour": "3", "source": "offer"}
    assert staff_client.post("/hardware/card/price", form).status_code == 302
    assert card.prices.count() == 2
    html = staff_client.get("/hardware/card").content.decode()
    assert "superseded" in html
    assert staff_client.get("/hardware.json").json()["rows"][0]["cheapest_usd_per_hour"] == 3.0


def test_a_price_is_either_rent_or_purchase(staff_client: Client) -> None:
    card = Accelerator.objects.create(slug="card", name="Card", vendor="Maker")
    form = {"provider": "shop", "kind": "x", "effective_from": today(), "usd_per_hour": "3", "purchase_usd": "9"}
    answer = staff_client.post("/hardware/card/price", form)
    assert "Give either the price of an hour or the price of purchase" in answer.content.decode()
    assert not card.prices.exists()


def test_one_price_a_day_of_one_provider_and_kind(staff_client: Client) -> None:
    card = Accelerator.objects.create(slug="card", name="Card", vendor="Maker")
    form = {"provider": "shop", "kind": "x", "effective_from": today(), "usd_per_hour": "3"}
    staff_client.post("/hardware/card/price", form)
    assert staff_client.post("/hardware/card/price", form).status_code == 200
    assert card.prices.count() == 1


# carbon of making hardware

MADE = {
    "accelerator": "",
    "accelerator_made_kg": "164",
    "server_made_kg": "5700",
    "accelerators_per_server": "8",
    "lifetime_years": "3",
}


def test_carbon_of_making_has_days_and_an_accelerator_has_its_own(staff_client: Client) -> None:
    card = Accelerator.objects.create(slug="card", name="Card", vendor="Maker")
    old, day = today() - timedelta(days=30), today()
    for change in (
        {"effective_from": old},
        {"effective_from": day, "accelerator_made_kg": "150"},
        {"effective_from": day, "accelerator": card.pk, "accelerator_made_kg": "300", "source": "its maker"},
    ):
        assert staff_client.post("/embodied/new", MADE | change).status_code == 302
    known = EmbodiedFactors.objects
    assert known.of("card", day).accelerator_made_kg == 300
    assert known.of("other", day).accelerator_made_kg == 150
    assert [known.of(slug, old).accelerator_made_kg for slug in ("card", "other")] == [164, 164]
    assert known.of("card", old - timedelta(days=1)) is None
    rows = staff_client.get("/embodied.json").json()["rows"]
    assert [(row["accelerator"], row["accelerator_made_kg"]) for row in rows] == [
        (None, 150),
        (None, 164),
        ("card", 300),
    ]
    html = staff_client.get("/embodied").content.decode()
    assert "its maker" in html
    assert html.count("not today") == 1
    assert 'value="300.0"' in staff_client.get("/embodied/new?accelerator=card").content.decode()


def test_the_same_day_again_corrects_the_carbon_of_making(staff_client: Client) -> None:
    for kg in ("160", "170"):
        staff_client.post("/embodied/new", MADE | {"effective_from": today(), "accelerator_made_kg": kg})
    assert [row.accelerator_made_kg for row in EmbodiedFactors.objects.all()] == [170]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"effective_from": "soon"}, "Enter a valid date"),
        ({"accelerator": "x"}, "Select a valid choice"),
        ({"accelerators_per_server": "0"}, "greater than or equal to 1"),
        ({"lifetime_years": "0"}, "greater than or equal to 0.1"),
        ({"server_made_kg": "-1"}, "greater than or equal to 0"),
    ],
)
def test_carbon_that_cannot_be_is_refused_in_words(staff_client: Client, change: dict[str, str], words: str) -> None:
    answer = staff_client.post("/embodied/new", MADE | {"effective_from": str(today())} | change)
    assert words in answer.content.decode()
    assert not EmbodiedFactors.objects.exists()


# endpoints that charge by the token


def test_an_endpoint_says_what_it_charges_or_that_nothing_starts(user_client: Client) -> None:
    known = Endpoint.objects.create(
        name="a", url="https://api.openai.com/v1", model="gpt-4o", billing="tokens", price_provider="openai"
    )
    unsaid = Endpoint.objects.create(name="c", url="https://api.openai.com/v1", model="gpt-4o")
    unknown = Endpoint.objects.create(name="b", url="https://api.example.com", model="x-9", billing="tokens")
    assert "OpenAI list price of gpt-4o" in user_client.get(f"/endpoints/{known.pk}").content.decode()
    html = user_client.get(f"/endpoints/{unknown.pk}").content.decode()
    assert "price unknown: no run starts" in html
    assert "No list price is known for x-9." in html
    html = user_client.get(f"/endpoints/{unsaid.pk}").content.decode()
    assert "no run starts until it is said how it is paid" in html
    assert "openai charges for each token at this address" in html
