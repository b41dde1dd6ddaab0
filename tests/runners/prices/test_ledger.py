"""What paid runs of the command line have set aside and spent, over a month and over crashes."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
import time_machine

from runners.prices import ledger
from runners.spec import SpecError


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "spent.jsonl"


def test_a_reserve_counts_until_it_is_settled(path):
    ledger.reserve("a", Decimal("0.5"), Decimal(1), path)
    with pytest.raises(SpecError, match=r"up to \$0.6 and \$0.5000 are left of this month's \$1: .* --month-usd"):
        ledger.reserve("b", Decimal("0.6"), Decimal(1), path)
    ledger.settle("a", Decimal("0.1"), path)
    ledger.reserve("b", Decimal("0.6"), Decimal(1), path)
    assert ledger.spent_this_month(path) == Decimal("0.7")


def test_a_month_begins_with_nothing_spent(path):
    with time_machine.travel(datetime(2026, 10, 31, 23, 59, tzinfo=UTC), tick=False):
        ledger.reserve("a", Decimal(1), Decimal(1), path)
    with time_machine.travel(datetime(2026, 11, 1, 0, 1, tzinfo=UTC), tick=False):
        assert ledger.spent_this_month(path) == 0
        ledger.reserve("b", Decimal(1), Decimal(1), path)


def test_a_line_that_was_cut_off_hides_no_other(path):
    ledger.reserve("a", Decimal("0.5"), Decimal(1), path)
    with path.open("ab") as file:
        file.write(b'{"run": "c", "reserv\n')
    ledger.reserve("b", Decimal("0.5"), Decimal(1), path)
    assert ledger.spent_this_month(path) == 1


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match=r"MONEY_FILE: .* cannot be written"):
        ledger.reserve("a", Decimal(1), Decimal(1), tmp_path / "file" / "spent.jsonl")


def test_the_month_and_the_file_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("MONEY_FILE", str(tmp_path / "m"))
    monkeypatch.setenv("MONEY_MONTH_USD", "12.5")
    assert (ledger.default_path(), ledger.month_usd()) == (tmp_path / "m", 12.5)
    monkeypatch.setenv("MONEY_MONTH_USD", "lots")
    with pytest.raises(SpecError, match="MONEY_MONTH_USD: 'lots' is no amount"):
        ledger.month_usd()
