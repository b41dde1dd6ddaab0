"""How busy a machine must be to cost less than an API."""

from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from observatory.theory.accounts import api_prices, hourly
from observatory.theory.accounts.api_cost import Rate, Rates
from observatory.theory.accounts.calculators.frame import moment, refusing
from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import number, result, text


@dataclass(frozen=True)
class Inputs:
    usd_per_hour: float = number(
        4.0, "$/h", "An hour of the machine", "Paid whether it serves or not; gpu-cost gives it.", low=0, high=1e7,
        symbol="h",
    )  # fmt: skip
    input_tokens_per_s: float = number(
        2000, "tok/s", "Input throughput", "At full load.", low=0, high=1e12, symbol="t_in"
    )
    output_tokens_per_s: float = number(
        500, "tok/s", "Output throughput", "At full load.", low=0, high=1e12, symbol="t_out"
    )
    cached_share: float = number(0.0, "", "Cached share", "Of input tokens, at the API.", low=0, high=1, symbol="k")
    model: str = text("", "Model", "For a list price; empty: the rates below.", longest=120)
    provider: str = text("", "Provider", "Such as openai; empty finds it by the model.", longest=60)
    on: str = text("", "Day", "Day of the price, as 2026-11-29. Empty: now.", longest=10)
    api_input_usd: Decimal | None = number(
        Decimal("0.5"), "$/Mtok", "API input", "Used without a model.", low=0, high=1e6, symbol="p_in"
    )
    api_cached_usd: Decimal | None = number(
        None, "$/Mtok", "API cached input", "Empty: the input rate.", low=0, high=1e6, symbol="p_k"
    )
    api_output_usd: Decimal | None = number(
        Decimal(2), "$/Mtok", "API output", "Used without a model.", low=0, high=1e6, symbol="p_out"
    )


@dataclass(frozen=True)
class Outputs:
    utilisation: float | None = result(
        "", "Break-even utilisation", "Share of the hours at full load; above 1 the API is always cheaper.", decimals=3
    )
    api_usd_per_full_hour: float | None = result("$/h", "The same tokens at the API", "An hour at full load.")
    verdict: str = result(label="Verdict", default="")
    price_source: str = result(label="API price", default="")


class Listed(NamedTuple):
    """Dollars per million tokens of a prompt below every tier."""

    input: float
    cached: float
    output: float
    source: str


@refusing
def compute(inputs: Inputs) -> Outputs:
    listed, reason = _rates(inputs)
    if listed is None:
        return Outputs(None, None, reason)
    fresh, cached = (
        inputs.input_tokens_per_s * (1 - inputs.cached_share),
        inputs.input_tokens_per_s * inputs.cached_share,
    )
    price = (fresh * listed.input + cached * listed.cached + inputs.output_tokens_per_s * listed.output) * 0.0036
    if price == 0:
        return Outputs(None, 0.0, "The API charges nothing for this traffic: no machine is cheaper.", listed.source)
    share = hourly.break_even_utilisation(inputs.usd_per_hour, price)
    return Outputs(share, price, _verdict(share), listed.source)


def _rates(inputs: Inputs) -> tuple[Listed | None, str]:
    """The API's rates, or why they are unknown."""
    if inputs.model:
        found = api_prices.quote(inputs.model, inputs.provider, at=moment(inputs.on))
        return (None, found.reason) if found.rates is None else _listed(found.rates)
    given, cached, made = (
        None if rate is None else Rate(rate)
        for rate in (inputs.api_input_usd, inputs.api_cached_usd, inputs.api_output_usd)
    )
    return _listed(Rates(input=given, output=made, cache_read=cached, source="rates as given"))


def _listed(rates: Rates) -> tuple[Listed | None, str]:
    if rates.input is None or rates.output is None:
        return None, "The API price is unknown: give a model, or a rate for input and for output."
    cached = rates.cache_read or rates.input
    return Listed(float(rates.input.base), float(cached.base), float(rates.output.base), rates.source), ""


def _verdict(share: float) -> str:
    if share > 1:
        return "The API is cheaper at any utilisation."
    return f"The machine is cheaper when more than {share:.0%} of its hours serve at full load."


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    full = outputs.api_usd_per_full_hour
    shares = tuple(step / 50 for step in range(51))
    machine = Line("machine", shares, (inputs.usd_per_hour,) * len(shares))
    api = Line("API", shares, tuple(None if full is None else full * share for share in shares))
    x, y = Axis("Utilisation"), Axis("Cost of an hour", "$/h", "lower")
    now = outputs.utilisation if outputs.utilisation is not None and outputs.utilisation <= 1 else None
    return (Plot("Machine against API", x, y, (machine, api), now=now),)


BREAK_EVEN = Calculator(
    name="break-even",
    title="Break-even with an API",
    subject="Money",
    summary="The utilisation above which a machine costs less than the same tokens at an API.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("u = h / ((t_in·(1 − k)·p_in + t_in·k·p_k + t_out·p_out) × 0.0036)",),
    source=f"Definition. List prices: {api_prices.PACKAGE} (MIT), dated.",
    assumptions=(
        "Both serve the same tokens at a quality that is taken to be equal.",
        "Prompts stay below every tier of the API.",
        "The machine is paid for every hour.",
    ),
    plots=_plots,
)
