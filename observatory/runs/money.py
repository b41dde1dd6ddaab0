"""Endpoints that charge by the token: what a run may cost is reserved before it is queued, and settled after it.

The reserve is the worst case of ``runners.budget`` at the dearest price that can hold; it goes into the specification,
so that the instrument too refuses a run that could cost more. Settling counts the tokens of the rows.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import ROUND_CEILING, Decimal
from typing import Any

import pyarrow as pa
from django.conf import settings
from django.db.models import Sum
from django.db.models.functions import Coalesce

from observatory.catalog.models import Endpoint
from observatory.runs.models import Run
from runners.budget import Billing, Budget, longest_input, worst_case_usd
from runners.load.rowfiles import Rows
from runners.prices import lists
from runners.prices.cost import Rate, Rates
from runners.prices.guard import Asked
from runners.prices.metered import SENT_COLUMNS, spent_usd
from runners.prices.usage import convention_of
from runners.prices.usd import Usd
from runners.quality.spec import QualitySpec, longest
from runners.sources import most_tokens
from runners.spec import Extent, RunSpec, SpecError

_CENT = Decimal("0.01")


class NotConfirmed(SpecError):
    """The run may cost more than may start unasked; ``amount`` is what must be typed."""

    def __init__(self, amount: str) -> None:
        super().__init__(f"this run may cost up to ${amount}: type {amount} to confirm")
        self.amount = amount


def rates(endpoint: Endpoint, at: datetime | None = None) -> tuple[Rates | None, str]:
    """What the endpoint charges at a moment, or why that is unknown. Without a moment: the dearest from now on."""
    if endpoint.input_usd_per_mtok is not None and endpoint.output_usd_per_mtok is not None:
        own = Rates(Rate(endpoint.input_usd_per_mtok), Rate(endpoint.output_usd_per_mtok), source="rates as entered")
        return own, ""
    model = endpoint.price_model or endpoint.model
    provider = endpoint.price_provider or lists.provider_at(endpoint.url)
    found = lists.dearest(model, provider) if at is None else lists.quote(model, provider, at=at)
    return found.rates, found.reason


def frozen(endpoint: Endpoint, at: datetime | None = None) -> dict[str, Any] | None:
    """The rates of a moment in a form to keep, whatever becomes of the endpoint or the list; those that a run queued
    now keeps where none is given. None: no price by token.
    """
    known = rates(endpoint, at)[0] if endpoint.billing == Billing.TOKENS else None
    return None if known is None else known.to_json()


def budget(endpoint: Endpoint, extent: Callable[[], Extent]) -> Budget:
    """What a run of that extent may cost. Raises SpecError that says what to change."""
    if endpoint.billing == Billing.UNSAID:
        why = Asked(endpoint.url, (endpoint.model, endpoint.price_model)).charging
        if why:
            raise SpecError(f"endpoint: {why}. Edit the endpoint: say how it is paid")
    if endpoint.billing != Billing.TOKENS:
        return Budget(billing=Billing(endpoint.billing))
    known, reason = rates(endpoint)
    if known is None or known.input is None or known.output is None:
        raise SpecError(
            f"endpoint: it is paid by the token and its price is unknown. {reason} Edit the endpoint: name provider "
            "and model of the price list, or enter both rates"
        )
    most = extent()
    price_in, price_out = known.highest(most.input_tokens)
    if most.requests is None:
        raise SpecError("load.requests: say how many requests a stage sends; by time alone the cost has no bound")
    worst = worst_case_usd(
        price_in,
        price_out,
        requests=most.stages * most.requests,
        input_tokens=most.input_tokens,
        output_tokens=most.output_tokens,
    )
    cap = Decimal(str(settings.MONEY_RUN_USD))
    if worst > cap:
        raise SpecError(
            f"load: the run may cost up to {Usd(worst).text}, above the ${cap:g} that a run may (MONEY_RUN_USD): "
            "ask for fewer requests, fewer stages or shorter answers"
        )
    return Budget(
        max_usd=float(worst.quantize(_CENT, ROUND_CEILING)),
        input_usd_per_mtok=float(price_in),
        output_usd_per_mtok=float(price_out),
        source=known.source,
        billing=Billing.TOKENS,
    )


def reserve(spec: RunSpec | QualitySpec, confirmed: str = "") -> Decimal | None:
    """What the run must set aside, None where nothing is charged by the token. To be called in the transaction that
    queues it. Raises SpecError when the month's money is spent, NotConfirmed when the amount must be typed first.
    """
    if spec.budget.max_usd is None:
        return None
    amount, typed = Decimal(str(spec.budget.max_usd)).quantize(_CENT), must_type(spec)
    if typed and confirmed.strip().removeprefix("$") != typed:
        raise NotConfirmed(typed)
    _one_at_a_time()
    left = Decimal(str(settings.MONEY_MONTH_USD)) - spent_this_month()
    if amount > left:
        raise SpecError(
            f"load: the run may cost up to ${amount} and {Usd(max(left, Decimal(0))).text} are left of this month's "
            f"${settings.MONEY_MONTH_USD:g} (MONEY_MONTH_USD): ask for less, or wait for the next month"
        )
    return amount


def must_type(spec: RunSpec | QualitySpec) -> str:
    """The amount that starts the run only when it is typed; empty for small ones."""
    usd = spec.budget.max_usd
    return f"{usd:.2f}" if usd is not None and usd > settings.MONEY_CONFIRM_USD else ""


def _one_at_a_time() -> None:
    """Reserves are made one after another, so that two cannot both take the last of the month's money."""
    list(Endpoint.objects.select_for_update().filter(billing=Billing.TOKENS).order_by("pk").values_list("pk"))


def spent_this_month() -> Decimal:
    """Settled where a run has ended, reserved where it has not; by when it was queued, in UTC."""
    begin = datetime.now(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    runs = Run.objects.filter(queued_at__gte=begin, reserved_usd__isnull=False)
    total = runs.aggregate(total=Sum(Coalesce("settled_usd", "reserved_usd")))["total"]
    return Decimal(total or 0)


def settled(run: Run, requests: Rows | None) -> Decimal | None:
    """What the rows of an ended run say that it cost, be it more than was reserved. None: its reserve stands.

    A request that was sent but whose usage is unknown counts at its worst, as does the check before the run.
    """
    kept = run.setup["endpoint"]["rates"] if run.reserved_usd is not None else None
    if requests is None or kept is None:
        return None
    rates, longest = Rates.from_json(kept), _longest(run)
    tables = (pa.Table.from_batches([batch]) for batch in requests.batches(SENT_COLUMNS))
    return spent_usd(tables, rates, longest, reasoning_apart=reasoning_apart(run))


def notice(run: Run) -> str:
    """What must be said of the money of an ended run; empty when it stayed within its reserve."""
    if run.settled_usd is None or run.reserved_usd is None or run.settled_usd <= run.reserved_usd:
        return ""
    return (
        f"It cost {Usd(run.settled_usd).text}, more than the {Usd(run.reserved_usd).text} that were set aside: the "
        "provider charged more tokens than were asked for. The month is charged in full."
    )


def reasoning_apart(run: Run) -> bool:
    """Whether the provider that answered reports reasoning beside its output tokens."""
    endpoint = run.setup["endpoint"]
    provider = lists.provider_at(endpoint["url"]) or endpoint["price_provider"]
    return not convention_of(provider).reasoning_inside_output


def _longest(run: Run) -> tuple[int, int]:
    """The most tokens that a prompt may have had, and its answers together."""
    if run.kind == Run.Kind.QUALITY:
        asked = QualitySpec.from_json(run.spec)
        most = longest(asked.tasks.tasks, asked.output_tokens)
        return longest_input(most["input_tokens"]), most["output_tokens"]
    workload = RunSpec.from_json(run.spec).workload
    answers = (most_tokens(workload.output_tokens) or 0) * workload.choices
    return longest_input(most_tokens(workload.input_tokens) or 0), answers
