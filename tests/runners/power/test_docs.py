from pathlib import Path

from runners.power.instruments import REASONS
from runners.power.sources import SOURCE_NAMES

DOCS = (Path(__file__).parents[3] / "docs/power.md").read_text()


def test_every_source_and_every_reason_is_documented():
    missing = [name for name in (*SOURCE_NAMES, *REASONS) if f"`{name}`" not in DOCS]
    assert missing == []
