import csv
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.management import call_command

from observatory.catalog.models import Accelerator, AcceleratorPrice, Site
from observatory.catalog.seed import DATA, SeedError, seed

pytestmark = pytest.mark.django_db


@pytest.fixture
def _seeded(db: None) -> None:
    seed()


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
    assert capsys.readouterr().out == ("accelerators: 33 created\naccelerator prices: 56 created\nsites: 357 created\n")
    assert (Accelerator.objects.count(), AcceleratorPrice.objects.count(), Site.objects.count()) == (33, 56, 357)


@pytest.mark.usefixtures("_seeded")
@pytest.mark.parametrize(
    ("slug", "facts"),
    [
        ("h100-sxm", {"mem_bandwidth_gb_s": 3350, "bf16_dense_tflops": 989, "memory_gb": 80, "tdp_w": 700}),
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
        ("grid-zaf", {"grid_g_per_kwh": 707.686, "electricity_usd_per_kwh": None}),
        ("this-machine", dict.fromkeys(("pue", "wue_l_per_kwh", "electricity_usd_per_kwh", "grid_g_per_kwh"))),
    ],
)
def test_a_site_has_its_known_values_and_what_is_unknown_is_missing(slug: str, facts: dict[str, object]) -> None:
    site = Site.objects.get(slug=slug)
    assert {name: getattr(site, name) for name in facts} == facts


@pytest.mark.usefixtures("_seeded")
def test_every_row_names_its_source() -> None:
    assert not Accelerator.objects.filter(source="").exists()
    assert not AcceleratorPrice.objects.filter(source="").exists()
    assert [site.slug for site in Site.objects.filter(source="")] == ["this-machine"]


@pytest.mark.usefixtures("_seeded")
def test_every_row_is_valid() -> None:
    for model in (Accelerator, AcceleratorPrice, Site):
        for item in model.objects.all():
            item.full_clean()


def test_zero_stands_only_where_the_source_says_zero() -> None:
    zeros = []
    for file in DATA.glob("*.csv"):
        with file.open(newline="") as lines:
            zeros += [row["slug"] for row in csv.DictReader(lines) if {"0", "0.0", "nan"} & set(row.values())]
    assert zeros == ["grid-caf"]  # all hydropower


@pytest.mark.usefixtures("_seeded")
def test_a_second_seed_changes_nothing() -> None:
    before = [list(model.objects.values()) for model in (Accelerator, AcceleratorPrice, Site)]
    counts = seed()
    assert {label: dict(count) for label, count in counts.items()} == {
        "accelerators": {"unchanged": 33},
        "accelerator prices": {"unchanged": 56},
        "sites": {"unchanged": 357},
    }
    assert before == [list(model.objects.values()) for model in (Accelerator, AcceleratorPrice, Site)]


@pytest.mark.usefixtures("_seeded")
def test_a_row_that_people_changed_is_kept_even_when_the_data_changes(edited: Callable[..., Path]) -> None:
    Site.objects.filter(slug="this-machine").update(pue=1.4)
    AcceleratorPrice.objects.filter(accelerator__slug="gb200").update(usd_per_hour=Decimal("3.21"))
    counts = seed(edited("sites.csv", "this-machine,This machine,,,,", "this-machine,This machine,,,1.7,"))
    assert (counts["sites"]["kept"], counts["accelerator prices"]["kept"]) == (1, 3)
    assert Site.objects.get(slug="this-machine").pue == 1.4


@pytest.mark.usefixtures("_seeded")
def test_a_row_that_nobody_changed_follows_the_data(edited: Callable[..., Path]) -> None:
    counts = seed(
        edited("accelerators.csv", "H100 SXM5,NVIDIA,Hopper,SXM5,80,3350", "H100 SXM5,NVIDIA,Hopper,SXM5,80,3352")
    )
    assert (counts["accelerators"]["updated"], counts["accelerators"]["unchanged"]) == (1, 32)
    assert Accelerator.objects.get(slug="h100-sxm").mem_bandwidth_gb_s == 3352
    assert seed()["accelerators"]["updated"] == 1


def test_a_row_that_people_made_under_the_same_name_is_kept() -> None:
    Site.objects.create(slug="grid-zaf", name="Our own figure", grid_g_per_kwh=650)
    assert seed()["sites"]["kept"] == 1
    assert Site.objects.get(slug="grid-zaf").name == "Our own figure"


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        ("sites.csv", "Google,,1.09,1.15", "Google,,0.9,1.15", "sites.csv, row 106.*pue"),
        ("sites.csv", "Google,,1.09,1.15", "Google,,abc,1.15", "sites.csv, row 106.*abc"),
        ("prices.csv", "gh200-96,Lambda", "gh200-97,Lambda", "prices.csv, row 20"),
        ("prices.csv", "gh200-96,Lambda,1.49", "gh200-96,Lambda,-1", "prices.csv, row 20.*usd_per_hour"),
    ],
)
def test_a_row_that_is_not_valid_stops_the_seed_and_loads_nothing(
    edited: Callable[..., Path], file: str, old: str, new: str, words: str
) -> None:
    with pytest.raises(SeedError, match=words):
        seed(edited(file, old, new))
    assert not Accelerator.objects.exists()
