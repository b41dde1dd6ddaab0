from dataclasses import fields
from pathlib import Path

from runners.meters import EXAMPLES, KINDS
from runners.power.instruments import REASONS
from runners.power.sources import METERS, SOURCE_NAMES

DOCS = (Path(__file__).parents[3] / "docs/power.md").read_text()


def test_every_source_and_every_reason_is_documented():
    missing = [name for name in (*SOURCE_NAMES, *REASONS) if f"`{name}`" not in DOCS]
    missing += [name for name in METERS if f"`{name}:" not in DOCS]
    assert missing == []


def test_every_option_of_an_instrument_elsewhere_is_documented():
    options = {field.name for kind in KINDS.values() for field in fields(kind)} - {
        "kind",
        "url",
        "file",
        "tdp_w",
        "query",
    }
    assert [name for name in sorted(options) if f"{name}=" not in DOCS] == []
    assert set(EXAMPLES) == set(METERS)
