"""The money guard of the command line: a paid endpoint gets no request before its worst case is known and allowed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from runners.budget import Billing, Budget, worst_case_usd
from runners.prices.cost import Rate, Rates
from runners.prices.paid import charging
from runners.prices.usage import convention_of
from runners.spec import Extent, SpecError

_FREE = "or --billing free if it costs nothing, --billing machine if its machines are paid by the hour"


@dataclass(frozen=True)
class Terms:
    """What the command line says of money. ``prices``: PROVIDER/MODEL or MODEL of the price list."""

    billing: Billing = Billing.UNSAID
    max_usd: float | None = None
    usd_per_mtok: tuple[float, float] | None = None
    prices: str = ""
    month_usd: float | None = None

    @property
    def given(self) -> bool:
        return self.max_usd is not None or self.usd_per_mtok is not None or bool(self.prices)


@dataclass(frozen=True)
class Asked:
    """An endpoint that gets requests, and the models that are asked of it."""

    url: str
    models: tuple[str, ...]

    @property
    def charging(self) -> str:
        """Why it is paid by the token; empty when it is not known to be."""
        return next(filter(None, (charging(self.url, model) for model in self.models or ("",))), "")


def budget(terms: Terms, asked: Sequence[Asked], extent: Callable[[], Extent]) -> Budget:
    """What a run may cost, none where nothing is charged by the token. Raises SpecError that says what to do."""
    if terms.billing in (Billing.FREE, Billing.MACHINE):
        if terms.given:
            words = "leave it out, or leave out --max-usd, --usd-per-mtok and --prices"
            raise SpecError(f"--billing {terms.billing}: {words}")
        return Budget(billing=terms.billing)
    paid = [(item, why) for item in asked if (why := item.charging)]
    if terms.billing is not Billing.TOKENS and not terms.given and not paid:
        return Budget()
    why = paid[0][1] if paid else "this endpoint is said to charge by the token"
    of = [item for item, _ in paid] or list(asked)
    rates = [_highest(_rates(terms, item, why), extent) for item in of]
    bound = Budget(
        terms.max_usd,
        float(max(rate[0] for rate in rates)),
        float(max(rate[1] for rate in rates)),
        rates[0][2],
        Billing.TOKENS,
        terms.month_usd,
    )
    if terms.max_usd is None:
        worst = _worst_words(bound, extent())
        raise SpecError(f"--max-usd: {why}: say what the run may cost at most. {worst}; {_FREE}")
    return bound


def _worst_words(found: Budget, most: Extent) -> str:
    if most.requests is None:
        return "Say how many requests a stage sends too (--requests), for load by the clock has no bounded cost"
    worst = f"{worst_usd(found, most):.4f}"
    return f"Its worst case is ${worst} ({found.source}): --max-usd {worst} lets it start"


def refuse_unguarded(found: Budget, asked: Sequence[Asked]) -> None:
    """Raises SpecError for a specification of a paid endpoint that neither bounds its cost nor says how it is paid."""
    if found.max_usd is not None or found.billing is not Billing.UNSAID:
        return
    why = next(filter(None, (item.charging for item in asked)), "")
    if why:
        raise SpecError(
            f"budget: {why}: give max_usd, input_usd_per_mtok and output_usd_per_mtok, or say how the endpoint is paid "
            'with "billing": "free" or "machine"'
        )


def worst_usd(found: Budget, most: Extent) -> Decimal:
    """What a run with a budget costs at most, rounded up to a hundredth of a cent."""
    worst = worst_case_usd(
        Decimal(str(found.input_usd_per_mtok)),
        Decimal(str(found.output_usd_per_mtok)),
        requests=most.stages * (most.requests or 0),
        input_tokens=most.input_tokens,
        output_tokens=most.output_tokens,
    )
    return worst.quantize(Decimal("0.0001"), "ROUND_CEILING")


def reasoning_apart(asked: Sequence[Asked]) -> bool:
    """Whether a provider that is asked reports reasoning beside its output tokens."""
    from runners.prices import lists

    return any(not convention_of(lists.provider_at(item.url)).reasoning_inside_output for item in asked)


def flat(found: Budget) -> Rates:
    """The rates of a budget, for what was used: an upper bound."""
    given, made = (Rate(Decimal(str(usd))) for usd in (found.input_usd_per_mtok, found.output_usd_per_mtok))
    return Rates(given, made, source=found.source)


def _rates(terms: Terms, asked: Asked, why: str) -> Rates:
    if terms.usd_per_mtok is not None:
        given, made = (Rate(Decimal(str(usd))) for usd in terms.usd_per_mtok)
        return Rates(given, made, source="rates given on the command line")
    from runners.prices import lists

    model = terms.prices or (asked.models[0] if asked.models else "")
    provider, slash, rest = model.partition("/")
    known = slash and provider in {item for item, _ in lists.token_models()}
    found = lists.dearest(rest, provider) if known else lists.dearest(model, lists.provider_at(asked.url))
    if found.rates is None or found.rates.input is None or found.rates.output is None:
        raise SpecError(
            f"--prices: {why}, and its price is unknown. {found.reason} Name provider and model of the price list with "
            f"--prices openai/gpt-4o, or give the rates with --usd-per-mtok IN,OUT; {_FREE}"
        )
    return found.rates


def _highest(rates: Rates, extent: Callable[[], Extent]) -> tuple[Decimal, Decimal, str]:
    return (*rates.highest(extent().input_tokens), rates.source)
