"""How busy a machine must be to cost less than an API."""

from dataclasses import dataclass
from decimal import Decimal

from observatory.theory.accounts import hourly
from observatory.theory.accounts.calculators.api_request import ASSUMPTIONS, Part, Price, Request, parts
from observatory.theory.accounts.calculators.frame import refusing
from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import number, result
from runners.metrics import significant
from runners.prices import lists
from runners.prices.cost import ApiCost, api_cost


@dataclass(frozen=True)
class Machine:
    """What is hired or bought instead."""

    usd_per_hour: Decimal = number(
        Decimal(4), "$/h", "An hour of the machine", "Paid whether it serves or not; gpu-cost gives it.",
        low=0, high=1e7, symbol="h", group="The machine",
    )  # fmt: skip
    requests_per_s: Decimal = number(
        Decimal(2), "req/s", "Requests at full load", "Such as the one below, served by the machine.",
        low=1e-6, high=1e9, symbol="q", group="The machine",
    )  # fmt: skip


@dataclass(frozen=True)
class Inputs(Request, Price, Machine):
    """A machine, a price list, and the request that both serve."""


@dataclass(frozen=True)
class Basis:
    """Where a number that went in comes from."""

    what: str = result(label="Input")
    value: str = result(label="Value")
    basis: str = result(label="Basis")


@dataclass(frozen=True)
class Outputs:
    utilisation: Decimal | None = result(
        "", "Break-even utilisation", "Share of the hours at full load; above 1 the API is always cheaper.", decimals=3
    )
    requests_per_hour: Decimal | None = result("req/h", "Requests that cost the same", "An hour, over all hours.")
    api_usd_per_request: Decimal | None = result("$", "A request at the API", better="lower")
    machine_usd_per_request: Decimal = result("$", "A request at the machine", "At full load.", better="lower")
    api_usd_per_full_hour: Decimal | None = result("$/h", "The same tokens at the API", "An hour at full load.")
    verdict: str = result(label="Verdict", default="")
    parts: tuple[Part, ...] = result(label="One request at the API, by class of tokens", default=())
    bases: tuple[Basis, ...] = result(label="What went in", default=())


@refusing
def compute(inputs: Inputs) -> Outputs:
    rates, reason = inputs.rates()
    usage = inputs.usage()
    cost = ApiCost(None, reason=reason) if rates is None else api_cost(usage, rates)
    requests = inputs.requests_per_s * 3600
    one = inputs.usd_per_hour / requests
    if cost.usd is None:
        return Outputs(None, None, None, one, None, cost.reason, bases=_bases(inputs, cost))
    paid = cost.usd.amount
    if paid == 0:
        words = "The API charges nothing for this request: no machine is cheaper."
        return Outputs(None, None, paid, one, paid, words, parts(cost), _bases(inputs, cost))
    share = hourly.break_even_utilisation(inputs.usd_per_hour, paid * requests)
    bases = _bases(inputs, cost)
    return Outputs(share, inputs.usd_per_hour / paid, paid, one, paid * requests, _verdict(share), parts(cost), bases)


def _bases(inputs: Inputs, cost: ApiCost) -> tuple[Basis, ...]:
    usage = inputs.usage()
    counted = f"as given, counted like {inputs.convention}"
    return (
        Basis("An hour of the machine", f"{inputs.usd_per_hour:f} $/h", "as given; all hours are paid"),
        Basis("Requests at full load", f"{inputs.requests_per_s:f} req/s", "as given"),
        Basis("Prompt of a request", f"{usage.input} tok, {usage.cache_read} of it read from the cache", counted),
        Basis("Answer of a request", f"{usage.output} tok, {usage.reasoning} of it reasoning", counted),
        Basis("Rates of the API", "by class of tokens" if cost.source else "unknown", cost.source or cost.reason),
    )


def _verdict(share: Decimal) -> str:
    if share > 1:
        return "The API is cheaper at any utilisation."
    return f"The machine is cheaper when more than {significant(float(100 * share))} % of its hours serve at full load."


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    full, hour = outputs.api_usd_per_full_hour, float(inputs.usd_per_hour)
    shares = tuple(step / 50 for step in range(51))
    machine = Line("machine", shares, (hour,) * len(shares))
    api = Line("API", shares, tuple(None if full is None else float(full) * share for share in shares))
    x, y = Axis("Utilisation"), Axis("Cost of an hour", "$/h", "lower")
    now = float(outputs.utilisation) if outputs.utilisation is not None and outputs.utilisation <= 1 else None
    return (Plot("Machine against API", x, y, (machine, api), now=now),)


BREAK_EVEN = Calculator(
    name="break-even",
    title="Break-even with an API",
    subject="Money",
    summary="The utilisation above which a machine costs less than the same requests at an API: list prices of a day, "
    "tiers, cached reads and writes, batch, reasoning. An unknown price stays unknown.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("u = h / (q × 3600 × c)", "c = Σ tokens_k × rate_k / 10^6 over classes k that do not overlap"),
    source=f"Definition. List prices: {lists.PACKAGE} (MIT), dated.",
    assumptions=(
        "Both serve the same requests at a quality that is taken to be equal.",
        "The machine is paid for every hour, and serves as fast whatever it finds in its cache.",
        *ASSUMPTIONS,
    ),
    symbols={"u": "break-even utilisation", "c": "cost of a request at the API"},
    plots=_plots,
)
