"""The most that a run can cost at an API that charges by the token, known before the first request is sent.

Every request is bounded: its answer by the output limit that goes with it, its prompt by its stated length with a
margin for a tokenizer that counts otherwise. A run with a budget says how many requests it sends, has no warm-up by the
clock, and sends no request a second time, so the sum is bounded too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

#: The check before a run: at most so many requests, of at most so many tokens.
CHECK_REQUESTS, CHECK_INPUT_TOKENS, CHECK_OUTPUT_TOKENS = 10, 1_000, 16
INPUT_MARGIN, INPUT_SLACK_TOKENS = Decimal("1.25"), 64
_MILLION = Decimal(1_000_000)


class Billing(StrEnum):
    """How an endpoint is paid for. ``unsaid``: by what is known of its address and model."""

    UNSAID = "unsaid"
    MACHINE = "machine"
    TOKENS = "tokens"
    FREE = "free"


@dataclass(frozen=True)
class Budget:
    """``max_usd``: what the run may cost at most; None where nothing is charged by the token. Rates are the highest
    that can hold while it runs. ``month_usd``: what all runs of this account's command line may cost in a calendar
    month; None where someone else keeps the month's account.
    """

    max_usd: float | None = None
    input_usd_per_mtok: float | None = None
    output_usd_per_mtok: float | None = None
    source: str = ""
    billing: Billing = Billing.UNSAID
    month_usd: float | None = None


def longest_input(tokens: int) -> int:
    """The most tokens that a prompt of a stated length may turn out to have."""
    return int(tokens * INPUT_MARGIN) + INPUT_SLACK_TOKENS


def worst_case_usd(
    input_usd_per_mtok: Decimal, output_usd_per_mtok: Decimal, *, requests: int, input_tokens: int, output_tokens: int
) -> Decimal:
    """What ``requests`` of a stated length and the check before them cost at most."""
    prompt = requests * longest_input(input_tokens) + CHECK_REQUESTS * CHECK_INPUT_TOKENS
    answer = requests * output_tokens + CHECK_REQUESTS * CHECK_OUTPUT_TOKENS
    return (prompt * input_usd_per_mtok + answer * output_usd_per_mtok) / _MILLION


def complaint(
    budget: Budget,
    *,
    stages: int,
    requests: int | None,
    warmup_s: float,
    input_tokens: int,
    output_tokens: int,
    unbounded: Sequence[str] = (),
) -> str:
    """Why a run must not start, and what to change; empty when it may. ``unbounded``: what else was asked for whose
    cost nobody knows beforehand.
    """
    if budget.max_usd is None:
        return ""
    if budget.input_usd_per_mtok is None or budget.output_usd_per_mtok is None:
        return "budget: the price per million input and output tokens is unknown; without it no cost can be bounded"
    if requests is None:
        return "load.requests: say how many requests a stage sends; by time alone the cost has no bound"
    if warmup_s > 0:
        return (
            "load.warmup_s: set 0 for an API that charges by the token, and load.cooldown_s too: load by the clock has "
            "no bounded cost"
        )
    if unbounded:
        return f"{unbounded[0]}: leave it out for an API that charges by the token; what it costs has no known bound"
    worst = worst_case_usd(
        Decimal(str(budget.input_usd_per_mtok)),
        Decimal(str(budget.output_usd_per_mtok)),
        requests=stages * requests,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    if worst > Decimal(str(budget.max_usd)):
        return (
            f"budget.max_usd: the run may cost up to ${worst:.4f} and ${budget.max_usd:g} are allowed; "
            "ask for fewer requests, fewer stages or shorter answers"
        )
    return ""
