"""What a run may cost at a paid endpoint is known, bounded and set aside before it is queued, and settled after."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from threading import Barrier, Thread
from typing import Any

import pyarrow as pa
import pytest
from django.db import connection

from observatory.benchmarks.models import Benchmark
from observatory.runs import money, spec, states
from observatory.runs.models import Run
from runners.load.records import SCHEMA
from runners.load.rowfiles import TableRows
from runners.spec import RunSpec, SpecError
from tests.questions import asking
from tests.services.fixtures import both_databases

pytestmark = both_databases
Make = Callable[..., Benchmark]
_count = count()


@pytest.fixture
def paid(benchmark: Make, settings: Any) -> Make:
    """A benchmark of 10 requests with 100 + 50 tokens at 1 and 2 $/M, unless said otherwise."""
    settings.MONEY_RUN_USD, settings.MONEY_MONTH_USD, settings.MONEY_CONFIRM_USD = 10, 100, 1

    def make(usd_in: str = "1", usd_out: str = "2", **changes: Any) -> Benchmark:
        made = benchmark(name=f"paid-{next(_count)}")
        asking(made, input_tokens=100, output_tokens=50, levels=[1])
        endpoint = made.deployment.endpoint
        endpoint.billing = "tokens"
        endpoint.input_usd_per_mtok, endpoint.output_usd_per_mtok = Decimal(usd_in), Decimal(usd_out)
        for name, value in changes.items():
            if hasattr(endpoint, name):
                setattr(endpoint, name, value)
            else:
                asking(made, **{name: value})
        endpoint.save()
        made.save()
        return made

    return make


def queue(of: Benchmark, confirmed: str = "") -> Run:
    return states.queue(of, Run.Trigger.PAGE, confirmed=confirmed)


def rows(*usages: tuple[int | None, int | None, int | None], sent: bool = True) -> TableRows:
    """Request rows of (input, cached, output) tokens."""
    base = dict.fromkeys(SCHEMA.names)
    made = [
        base | {"sent_ns": 1 if sent else None, "input_tokens": given, "cached_tokens": cached, "output_tokens": out}
        for given, cached, out in usages
    ]
    return TableRows(pa.Table.from_pylist(made, schema=SCHEMA))


def test_the_reserve_is_the_worst_case_rounded_up_to_a_cent(paid: Make) -> None:
    """10 x (125 + 64) + 10 x 1000 of the check, at 1 $/M; 10 x 50 + 10 x 16, at 2 $/M: 0.01321 $."""
    run = queue(paid())
    assert run.reserved_usd == Decimal("0.02")
    assert RunSpec.from_json(run.spec).budget.max_usd == 0.02


def test_machines_and_free_endpoints_reserve_nothing(paid: Make) -> None:
    assert queue(paid(billing="machine")).reserved_usd is None
    assert queue(paid(billing="free")).reserved_usd is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"input_usd_per_mtok": None, "model": "x-9"}, "its price is unknown. No list price is known for x-9"),
        ({"output_usd_per_mtok": None, "model": "x-9"}, "enter both rates"),
        ({"requests": None, "duration_s": 10.0}, "say how many requests"),
        ({"warmup_s": 5.0}, "load.warmup_s: set 0"),
        ({"requests": 100_000}, r"above the \$10 that a run may"),
    ],
)
def test_a_run_without_a_known_bound_does_not_start(paid: Make, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        queue(paid(**changes))
    assert not Run.objects.exists()


def test_a_known_paid_address_must_say_how_it_is_paid(paid: Make) -> None:
    with pytest.raises(SpecError, match="openai charges for each token at this address"):
        queue(paid(billing="unsaid", url="https://api.openai.com/v1"))
    for said in ("free", "machine"):
        run = queue(paid(billing=said, url="https://api.openai.com/v1"))
        assert (run.reserved_usd, RunSpec.from_json(run.spec).budget.billing) == (None, said)


def test_a_public_address_with_a_model_that_is_sold_by_the_token_must_say_so_too(paid: Make) -> None:
    with pytest.raises(SpecError, match=r"8\.8\.8\.8 is a public address and gpt-4o a model that openai sells"):
        queue(paid(billing="unsaid", url="https://8.8.8.8/v1", model="gpt-4o"))
    assert queue(paid(billing="unsaid", url="http://10.0.0.8/v1", model="gpt-4o")).reserved_usd is None
    assert queue(paid(billing="unsaid", url="https://8.8.8.8/v1", model="our-own")).reserved_usd is None


def test_a_list_price_serves_where_no_rate_is_entered(paid: Make) -> None:
    found = paid(input_usd_per_mtok=None, price_provider="openai", price_model="gpt-4o")
    budget = spec.build(found).budget
    assert (budget.input_usd_per_mtok, budget.output_usd_per_mtok) == (2.5, 10)
    assert budget.source.startswith("OpenAI list price of gpt-4o")


def test_prices_with_cheaper_hours_are_reserved_at_the_dearest(paid: Make) -> None:
    found = paid(input_usd_per_mtok=None, price_provider="deepseek", price_model="deepseek-v4-pro")
    now = datetime.now(UTC)
    day = [money.rates(found.deployment.endpoint, now + timedelta(hours=hour))[0] for hour in range(24)]
    prices = {rates.output.base for rates in day}
    assert len(prices) > 1
    assert spec.build(found).budget.output_usd_per_mtok == float(max(prices))


def test_a_large_amount_must_be_typed(paid: Make) -> None:
    found = paid(usd_in="500", usd_out="500")
    with pytest.raises(money.NotConfirmed, match=r"type 6\.28 to confirm") as refused:
        queue(found)
    with pytest.raises(money.NotConfirmed):
        queue(found, "6.27")
    assert queue(found, refused.value.amount).reserved_usd == Decimal("6.28")


def test_the_month_has_an_end(paid: Make, settings: Any) -> None:
    settings.MONEY_MONTH_USD = 0.05
    found = paid()
    first = queue(found)
    queue(found)
    with pytest.raises(SpecError, match=r"\$0.01 are left of this month's \$0.05"):
        queue(found)
    states.request_cancel(first.pk)
    assert Run.objects.get(pk=first.pk).settled_usd == 0
    assert queue(found).reserved_usd == Decimal("0.02")


def test_two_cannot_take_the_last_of_the_month(paid: Make, settings: Any) -> None:
    settings.MONEY_MONTH_USD = 0.03
    found = paid()
    start, won = Barrier(4), []

    def take() -> None:
        start.wait(20)
        try:
            won.append(queue(Benchmark.objects.get(pk=found.pk)).pk)
        except SpecError:
            pass
        finally:
            connection.close()

    threads = [Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(won) == 1


def test_settling_counts_the_tokens_of_the_rows_and_the_check(paid: Make) -> None:
    run = queue(paid(usd_in="10", usd_out="20"))
    check = Decimal("0.1032")  # 10 requests of 1000 + 16 tokens
    assert money.settled(run, rows((100, 0, 50), (100, 40, 10))) == check + Decimal("0.0032")


def test_a_request_whose_usage_is_unknown_counts_at_its_worst(paid: Make) -> None:
    run = queue(paid(usd_in="10", usd_out="20"))
    known, unknown = money.settled(run, rows((189, 0, 50))), money.settled(run, rows((None, None, None)))
    assert known == unknown


def test_what_was_not_sent_costs_nothing(paid: Make) -> None:
    run = queue(paid())
    assert money.settled(run, rows((100, 0, 50), sent=False)) == money.settled(run, rows())


def test_what_cost_more_than_was_reserved_is_settled_in_full_and_said(paid: Make) -> None:
    run = queue(paid())
    assert money.settled(run, rows((10**9, 0, 10**9))) == Decimal("0.01032") + 3000
    run.settled_usd = Decimal(3001)
    assert "$3,001.00" in money.notice(run)
    run.settled_usd = run.reserved_usd
    assert money.notice(run) == ""


def thinking(output: int, reasoning: int) -> TableRows:
    row = dict.fromkeys(SCHEMA.names) | {
        "sent_ns": 1, "input_tokens": 0, "output_tokens": output, "reasoning_tokens": reasoning,
    }  # fmt: skip
    return TableRows(pa.Table.from_pylist([row], schema=SCHEMA))


@pytest.mark.parametrize(
    ("provider", "output", "reasoning", "billed"),
    [("openai", 100, 60, 100), ("x-ai", 100, 60, 160), ("google", 100, 60, 160), ("", 10, 60, 70)],
)
def test_reasoning_reported_apart_is_settled(
    paid: Make, provider: str, output: int, reasoning: int, billed: int
) -> None:
    """By the provider; and more reasoning than output was apart, whoever reported it."""
    run = queue(paid(usd_out="10", price_provider=provider))
    paid_usd = (money.settled(run, thinking(output, reasoning)) or 0) - (money.settled(run, rows()) or 0)
    assert paid_usd == billed * Decimal(10) / 1_000_000


def test_later_edits_of_the_endpoint_settle_nothing_anew(paid: Make) -> None:
    run = queue(paid(usd_in="10", usd_out="20"))
    before = money.settled(run, rows((100, 0, 50)))
    run.endpoint.input_usd_per_mtok, run.endpoint.billing = Decimal(99), "machine"
    run.endpoint.save()
    assert money.settled(Run.objects.get(pk=run.pk), rows((100, 0, 50))) == before


def test_without_rows_the_reserve_stands(paid: Make) -> None:
    assert money.settled(queue(paid()), None) is None


def test_what_a_run_may_cost_does_not_change_what_it_asks(paid: Make) -> None:
    cheap, dear = queue(paid()), queue(paid(usd_in="3"))
    same = [{k: v for k, v in run.spec.items() if k not in ("salt", "budget", "target")} for run in (cheap, dear)]
    assert same[0] == same[1]
    assert spec.fingerprint(RunSpec.from_json(cheap.spec)) == cheap.spec_sha256
