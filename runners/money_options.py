"""Options that say what a run may cost at an endpoint that charges by the token, and the account that is kept of it."""

import argparse
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from runners.bench_options import numbers
from runners.budget import Billing, Budget, longest_input
from runners.exits import Exit
from runners.load.records import read_spool
from runners.prices import ledger
from runners.prices.guard import Asked, Terms, flat, reasoning_apart, worst_usd
from runners.prices.metered import SENT_COLUMNS, spent_usd
from runners.prices.usd import Usd
from runners.spec import Extent, SpecError


def add_money(group: Any) -> None:
    group.add_argument(
        "--billing", choices=list(Billing), default=Billing.UNSAID.value,
        help="how the endpoint is paid; unsaid: by the token where its address or model is known to be (default)",
    )  # fmt: skip
    group.add_argument("--max-usd", type=float, help="what the run may cost at most; needed where tokens are paid")
    group.add_argument(
        "--usd-per-mtok", type=_price, metavar="IN,OUT", help="what is charged per million tokens, if no list says it"
    )
    group.add_argument(
        "--prices", default="", metavar="PROVIDER/MODEL", help="its name in the price list (default: by URL and model)"
    )
    group.add_argument(
        "--month-usd", type=float, metavar="USD",
        help=f"what all paid runs of a calendar month may cost (default ${ledger.MONTH_VARIABLE}, else 100)",
    )  # fmt: skip


def terms_of(args: argparse.Namespace) -> Terms:
    """Raises SpecError."""
    month = ledger.month_usd() if args.month_usd is None else args.month_usd
    return Terms(Billing(args.billing), args.max_usd, args.usd_per_mtok, args.prices, month)


def _price(text: str) -> tuple[float, float]:
    prices = numbers(text)
    if len(prices) != 2 or min(prices) < 0:
        raise argparse.ArgumentTypeError(f"{text!r}: write the price of input and of output, such as 0.5,2")
    return prices[0], prices[1]


class Account:
    """The money of a run, kept in the ledger where its budget names a month's; for other runs nothing is done."""

    def __init__(self, budget: Budget, extent: Callable[[], Extent], asked: Sequence[Asked]) -> None:
        self.reserved: Decimal | None = None
        self.settled: Decimal | None = None
        self._budget, self._run = budget, secrets.token_hex(8)
        if budget.max_usd is not None and budget.month_usd is not None:
            self._extent, self._apart = extent(), reasoning_apart(asked)
            self.reserved = worst_usd(budget, self._extent)
            ledger.reserve(self._run, self.reserved, Decimal(str(budget.month_usd)))

    def settle(self, status: Exit, out: Path) -> None:
        """By the tokens of the rows; a run that left none keeps its reserve, unless the endpoint was not usable."""
        if self.reserved is None:
            return
        rows = _rows(out)
        if not rows and status is not Exit.UNUSABLE:
            return
        worst = (longest_input(self._extent.input_tokens), self._extent.output_tokens)
        self._settle(spent_usd(rows, flat(self._budget), worst, reasoning_apart=self._apart))

    def release(self) -> None:
        """Nothing was sent."""
        if self.reserved is not None:
            self._settle(Decimal(0))

    def _settle(self, usd: Decimal | None) -> None:
        self.settled = usd
        if usd is not None:
            ledger.settle(self._run, usd)

    @property
    def words(self) -> str:
        """For people, below the results; empty for a run that is not paid."""
        if self.reserved is None:
            return ""
        if self.settled is None:
            return f"\nMoney: {Usd(self.reserved).text} stay set aside; what was spent is not known."
        return f"\nMoney: {Usd(self.settled).text} at most, by its tokens; {Usd(self.reserved).text} were set aside."


@contextmanager
def accounted(budget: Budget, extent: Callable[[], Extent], asked: Sequence[Asked]) -> Iterator[Account]:
    """Reserves before the first request. Raises SpecError when the month's money does not reach."""
    account = Account(budget, extent, asked)
    try:
        yield account
    except SpecError:
        account.release()
        raise


def _rows(out: Path) -> list[pa.Table]:
    """The request rows that a run left, whole or cut off; of what cannot be read, none at all."""
    tables = []
    for name in ("requests", "reference-requests"):
        whole, spool = out / f"{name}.parquet", out / f"{name}.arrow"
        try:
            if whole.exists():
                tables.append(pq.read_table(whole, columns=list(SENT_COLUMNS)))
            elif spool.exists():
                tables.append(read_spool(spool))
        except (OSError, pa.ArrowException):
            return []
    return tables
