"""What a request costs at a token API."""

from dataclasses import dataclass
from decimal import Decimal

from observatory.theory.accounts.calculators.api_request import ASSUMPTIONS, Part, Price, Request, parts
from observatory.theory.accounts.calculators.frame import refusing
from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import number, result
from runners.prices import lists
from runners.prices.cost import api_cost


@dataclass(frozen=True)
class Inputs(Request, Price):
    requests: int = number(1, "", "Requests", "As many as this one.", low=1, high=10**12)


@dataclass(frozen=True)
class Outputs:
    usd: Decimal | None = result("$", "Cost", "Of all requests. Missing when a rate is unknown.")
    usd_per_request: Decimal | None = result("$", "Cost of one request", better="lower")
    reason: str = result(label="Why unknown", default="")
    price_source: str = result(label="Price", default="")
    parts: tuple[Part, ...] = result(label="One request by class of tokens", default=())


@refusing
def compute(inputs: Inputs) -> Outputs:
    usage = inputs.usage()
    rates, reason = inputs.rates()
    if rates is None:
        return Outputs(None, None, reason)
    cost = api_cost(usage, rates)
    one = None if cost.usd is None else cost.usd.amount
    return Outputs(None if one is None else one * inputs.requests, one, cost.reason, cost.source, parts(cost))


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    kinds = tuple(part.kind for part in outputs.parts)
    bars = Line("one request", kinds, tuple(float(part.usd) for part in outputs.parts))
    return (Plot("Where the money goes", Axis("Tokens"), Axis("Cost", "$", "lower"), (bars,), bars=True),)


API_COST = Calculator(
    name="api-cost",
    title="Cost at a token API",
    subject="Money",
    summary="What a request costs at a list price of a day or at rates of your own: tiers, cached reads and writes, "
    "batch, reasoning. An unknown price stays unknown.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("$ = Σ tokens_c × rate_c / 10^6 over classes c that do not overlap",),
    source=f"List prices: {lists.PACKAGE} (MIT), dated; rules of counting: the providers' API references.",
    assumptions=ASSUMPTIONS,
    plots=_plots,
)
