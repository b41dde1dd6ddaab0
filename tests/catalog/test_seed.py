import csv
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command

from observatory.catalog import theory_facts
from observatory.catalog.models import (
    FACTORS,
    Accelerator,
    AcceleratorPrice,
    EmbodiedFactors,
    Site,
    SiteFactors,
    today,
)
from observatory.catalog.seed import DATA, SeedError, seed
from observatory.theory import registry
from tests.factories import seeded

pytestmark = pytest.mark.django_db

MODELS = (Accelerator, AcceleratorPrice, EmbodiedFactors, Site, SiteFactors)


@pytest.fixture
def _seeded(db: None) -> None:
    seeded()


@pytest.fixture
def edited(tmp_path: Path) -> Callable[[str, str, str], Path]:
    """A copy of the data files in which one text is replaced."""

    def edit(file: str, old: str, new: str) -> Path:
        copy = tmp_path / "data"
        shutil.copytree(DATA, copy)
        text = (copy / file).read_text()
        assert text.count(old) == 1
        (copy / file).write_text(text.replace(old, new))
        return copy

    return edit


def test_the_command_prints_what_it_loaded(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("seed")
    assert capsys.readouterr().out == (
        "accelerators: 36 created\naccelerator prices: 70 created\nembodied factors: 1 created\nsites: 363 created\n"
        "site factors: 363 created\n"
    )
    assert [model.objects.count() for model in MODELS] == [36, 70, 1, 363, 363]


@pytest.mark.usefixtures("_seeded")
@pytest.mark.parametrize(
    ("slug", "facts"),
    [
        ("h100-sxm", {"mem_bandwidth_gb_s": 3350, "bf16_dense_tflops": 989, "memory_gb": 80, "tdp_w": 700}),
        ("h200-sxm", {"provisioned_kw": 1.73}),
        ("mi355x", {"provisioned_kw": 2.65}),
        ("a10", {"provisioned_kw": None}),
        ("l40", {"memory_gb": 48, "mem_bandwidth_gb_s": 864}),
        ("mi300x", {"mem_bandwidth_gb_s": 5300, "memory_gb": 192, "fp8_dense_tflops": 2615, "fp4_dense_tflops": None}),
        ("tpu-v5e", {"tdp_w": None, "fp8_dense_tflops": None, "scaleup_tech": "ICI"}),
        ("l4", {"mem_bandwidth_gb_s": 300, "tdp_w": 72, "scaleup_gb_s": None, "scaleup_tech": ""}),
    ],
)
def test_a_data_sheet_has_its_known_values_and_what_is_unknown_is_missing(slug: str, facts: dict[str, object]) -> None:
    accelerator = Accelerator.objects.get(slug=slug)
    assert {name: getattr(accelerator, name) for name in facts} == facts


@pytest.mark.usefixtures("_seeded")
def test_prices_have_their_known_values() -> None:
    def price(slug: str, provider: str, kind: str) -> Decimal:
        return AcceleratorPrice.objects.get(accelerator__slug=slug, provider=provider, kind=kind).usd_per_hour

    assert price("h100-sxm", "SemiAnalysis TCO model", "3-year rental") == Decimal("1.3")
    assert price("h100-sxm", "SemiAnalysis TCO model", "owned by a neocloud") == Decimal("1.69")
    assert price("h100-sxm", "Lambda", "on-demand, 8x") == Decimal("2.99")
    assert price("rtxa6000", "Hyperstack", "on-demand") == Decimal("0.5")
    assert price("rtx6000-ada", "Verda (DataCrunch)", "on-demand") == Decimal("0.826")
    assert price("l40", "Hyperstack", "on-demand") == 1
    assert price("v100-sxm2-32g", "Verda (DataCrunch)", "on-demand") == Decimal("0.138")


@pytest.mark.usefixtures("_seeded")
@pytest.mark.parametrize(
    ("slug", "facts"),
    [
        (
            "aws-eu-north-1",
            {"pue": 1.1, "wue_l_per_kwh": 0.02, "grid_g_per_kwh": 24.71, "electricity_usd_per_kwh": None},
        ),
        ("gcp-africa-south1", {"pue": None, "wue_l_per_kwh": None, "grid_g_per_kwh": 656.85}),
        ("google-fleet-average", {"pue": 1.09, "wue_l_per_kwh": 1.15, "grid_g_per_kwh": None}),
        ("anthropic-assumed-range", {"pue": None, "wue_l_per_kwh": None}),
        ("us-texas-industrial", {"electricity_usd_per_kwh": 0.066, "pue": None, "grid_g_per_kwh": None}),
        ("eu-eu27-non-household", {"electricity_usd_per_kwh": 0.2078, "pue": None, "grid_g_per_kwh": None}),
        ("grid-zaf", {"grid_g_per_kwh": 707.686, "electricity_usd_per_kwh": None}),
        ("aws-ap-south-1", {"grid_g_per_kwh": 746.98, "grid_market_g_per_kwh": 0}),
        ("this-machine", dict.fromkeys(FACTORS)),
    ],
)
def test_a_site_has_its_known_values_and_what_is_unknown_is_missing(slug: str, facts: dict[str, object]) -> None:
    site = Site.objects.on(today()).get(slug=slug)
    assert {name: getattr(site, name) for name in facts} == facts


@pytest.mark.usefixtures("_seeded")
def test_every_row_names_its_source() -> None:
    assert not Accelerator.objects.filter(source="").exists()
    assert not AcceleratorPrice.objects.filter(source="").exists()
    assert not SiteFactors.objects.filter(source="").exists()
    assert not Accelerator.objects.filter(provisioned_kw__isnull=False, provisioned_source="").exists()


@pytest.mark.usefixtures("_seeded")
def test_prices_in_euros_say_the_price_as_published_and_the_rate_of_exchange() -> None:
    rows = SiteFactors.objects.filter(site__slug__startswith="eu-")
    assert rows.count() == 7
    for row in rows:
        euros, _, dollars = row.note.partition(" €/kWh at ")
        rate = float(dollars.split()[0])
        assert row.electricity_usd_per_kwh == pytest.approx(float(euros.rsplit(maxsplit=1)[1]) * rate, abs=5e-5)


@pytest.mark.usefixtures("_seeded")
def test_every_row_is_valid() -> None:
    faults = {}
    for item in (item for model in MODELS for item in model.objects.all()):
        try:
            item.full_clean()
        except ValidationError as error:
            faults[str(item)] = error.messages
    assert faults == {}


def test_zero_stands_only_where_the_source_says_zero() -> None:
    zeros = []
    for file in DATA.glob("*.csv"):
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines))
        for row in rows:  # contracts that cover everything make a market based zero
            values = {value for name, value in row.items() if name != "grid_market_g_per_kwh"}
            zeros += [row["site"]] if {"0", "0.0", "nan"} & values else []
    assert zeros == ["grid-caf"]  # all hydropower


@pytest.mark.usefixtures("_seeded")
def test_a_second_seed_changes_nothing() -> None:
    before = [list(model.objects.values()) for model in MODELS]
    counts = seed()
    assert {label: dict(count) for label, count in counts.items()} == {
        "accelerators": {"unchanged": 36},
        "accelerator prices": {"unchanged": 70},
        "embodied factors": {"unchanged": 1},
        "sites": {"unchanged": 363},
        "site factors": {"unchanged": 363},
    }
    assert before == [list(model.objects.values()) for model in MODELS]


@pytest.mark.usefixtures("_seeded")
def test_a_row_that_people_changed_is_kept_even_when_the_data_changes(edited: Callable[..., Path]) -> None:
    SiteFactors.objects.filter(site__slug="google-fleet-average").update(pue=1.4)
    AcceleratorPrice.objects.filter(accelerator__slug="gb200").update(usd_per_hour=Decimal("3.21"))
    counts = seed(edited("site_factors.csv", "2025-08-21,1.09", "2025-08-21,1.08"))
    assert (counts["site factors"]["kept"], counts["accelerator prices"]["kept"]) == (1, 3)
    assert Site.objects.get(slug="google-fleet-average").current.pue == 1.4


@pytest.mark.usefixtures("_seeded")
def test_a_row_that_nobody_changed_follows_the_data(edited: Callable[..., Path]) -> None:
    counts = seed(
        edited("accelerators.csv", "H100 SXM5,NVIDIA,Hopper,SXM5,80,3350", "H100 SXM5,NVIDIA,Hopper,SXM5,80,3352")
    )
    assert (counts["accelerators"]["updated"], counts["accelerators"]["unchanged"]) == (1, 35)
    assert Accelerator.objects.get(slug="h100-sxm").mem_bandwidth_gb_s == 3352
    assert seed()["accelerators"]["updated"] == 1


def test_a_row_that_people_made_under_the_same_name_is_kept() -> None:
    Site.objects.create(slug="grid-zaf", name="Our own figure")
    assert seed()["sites"]["kept"] == 1
    assert Site.objects.get(slug="grid-zaf").name == "Our own figure"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("site_factors.csv", "2025-08-21,1.09,", "2025-08-21,0.9,", "site_factors.csv, row 105.*pue"),
        ("site_factors.csv", "2025-08-21,1.09,", "2025-08-21,abc,", "site_factors.csv, row 105.*abc"),
        ("site_factors.csv", "2025-08-21,1.09,", "August,1.09,", "site_factors.csv, row 105"),
        ("prices.csv", "gh200-96,Lambda,on-demand,2025-01-01,1.49", "gh200-96,Lambda,on-demand,2025-01-01,", "row 20"),
        ("prices.csv", "gh200-96,Lambda", "gh200-97,Lambda", "prices.csv, row 20"),
        (
            "prices.csv",
            "gh200-96,Lambda,on-demand,2025-01-01,1.49",
            "gh200-96,Lambda,on-demand,2025-01-01,-1",
            "prices.csv, row 20.*usd_per_hour",
        ),
    ],
)
def test_a_row_that_is_not_valid_stops_the_seed_and_loads_nothing(
    edited: Callable[..., Path], file: str, old: str, new: str, words: str
) -> None:
    with pytest.raises(SeedError, match=words):
        seed(edited(file, old, new))
    assert not Accelerator.objects.exists()


@pytest.mark.usefixtures("_seeded")
def test_a_published_range_of_a_pue_is_kept_with_it() -> None:
    fleet = SiteFactors.objects.get(site__slug="google-fleet-average")
    assert (fleet.pue_low, fleet.pue, fleet.pue_high) == (1.07, 1.09, 1.16)
    assert not SiteFactors.objects.filter(pue=None, pue_low__isnull=False).exists()


@pytest.mark.usefixtures("_seeded")
def test_tokens_per_megawatt_takes_the_provisioned_power_of_an_accelerator() -> None:
    found = theory_facts.fill(registry.BY_NAME["tokens-per-mw"], {}, {"accelerator": "h100-sxm"})
    assert found == {"kw_per_accelerator": "1.73"}
