"""A run at a paid endpoint: reserved before it sends, settled by its tokens, refused beyond the month's money."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from runners.prices.ledger import spent_this_month
from tests.runners.test_bench import QUICK, bench
from tests.services.misbehaving import good, json_body, serving

PAID = (
    *("--billing", "tokens", "--usd-per-mtok", "1,2", "--max-usd", "1"),
    *("--input-tokens", "16", "--output-tokens", "4", "--requests", "3", *QUICK),
)


@pytest.fixture
def month(tmp_path: Path) -> Path:
    return tmp_path / "spent.jsonl"


def entries(month: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in month.read_text().splitlines()]


def test_a_paid_run_reserves_and_settles(tmp_path: Path, month: Path) -> None:
    """3 x (1.25 x 16 + 64) + 10,000 tokens in and 3 x 4 + 160 out, at 1 and 2 $/M, rounded up."""
    with serving({"m": good}) as server:
        done, _, summary = bench(server.url, tmp_path / "out", *PAID, MONEY_FILE=str(month))
    assert summary is not None, done.stdout + done.stderr
    reserve, settle = entries(month)
    assert Decimal(reserve["reserved_usd"]) == Decimal("0.0106")
    assert Decimal("0.01032") < Decimal(settle["settled_usd"]) < Decimal("0.0106")
    assert spent_this_month(month) == Decimal(settle["settled_usd"])


def test_a_run_that_the_month_does_not_allow_sends_nothing(tmp_path: Path, month: Path) -> None:
    with serving({"m": good}) as server:
        done, lines, _ = bench(server.url, tmp_path / "out", *PAID, "--month-usd", "0.01", MONEY_FILE=str(month))
        assert server.requests == []
    assert done.returncode == 2
    assert "$0.0100 are left of this month's $0.01" in lines[-1]["text"]
    assert spent_this_month(month) == 0


def test_an_endpoint_that_is_not_usable_costs_no_more_than_the_check(tmp_path: Path, month: Path) -> None:
    with serving({"m": json_body({"error": "no"}, "401 Unauthorized")}) as server:
        done, _, _ = bench(server.url, tmp_path / "out", *PAID, MONEY_FILE=str(month))
    assert done.returncode == 3
    assert spent_this_month(month) == Decimal("0.01032")


def test_a_paid_address_is_refused_before_anything_is_sent(tmp_path: Path, month: Path) -> None:
    done, lines, _ = bench("https://api.openai.com/v1", tmp_path / "out", model="gpt-4o", MONEY_FILE=str(month))
    assert done.returncode == 2
    assert "say what the run may cost at most" in lines[-1]["text"]
    assert not month.exists()
