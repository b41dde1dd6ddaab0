"""What the electricity of a token costs, and how many tokens a megawatt makes."""

from dataclasses import dataclass

from observatory.theory.accounts import hourly
from observatory.theory.calculator import Axis, Calculator, Plot
from observatory.theory.fields import number, result


@dataclass(frozen=True)
class Inputs:
    j_per_token: float = number(
        0.3731, "J/tok", "Energy per token", "IT energy; the price is per the same kind of token.", low=0, high=1e6,
        symbol="j",
    )  # fmt: skip
    pue: float = number(1.2, "", "PUE", "Facility energy over IT energy.", low=1, high=5)
    electricity_usd_per_kwh: float = number(0.09, "$/kWh", "Electricity", "Price paid.", low=0, high=10)


@dataclass(frozen=True)
class Outputs:
    usd_per_mtok: float = result("$/Mtok", "Electricity per M tokens", decimals=6, better="lower")
    kwh_per_mtok: float = result("kWh/Mtok", "Facility energy per M tokens", decimals=3, better="lower")


def compute(inputs: Inputs) -> Outputs:
    return Outputs(
        hourly.electricity_per_mtok(inputs.j_per_token, inputs.pue, inputs.electricity_usd_per_kwh),
        inputs.j_per_token * inputs.pue / 3.6,
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    line = ELECTRICITY_COST.line(inputs, "electricity_usd_per_kwh", "usd_per_mtok")
    x, y = Axis("Electricity", "$/kWh"), Axis("Electricity per M tokens", "$/Mtok", "lower")
    return (Plot("Cost over the price of electricity", x, y, (line,), now=inputs.electricity_usd_per_kwh),)


ELECTRICITY_COST = Calculator(
    name="electricity-cost",
    title="Electricity of tokens",
    subject="Money",
    summary="Dollars of electricity per million tokens from measured joules per token.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("$ per M = j × PUE × $/kWh / 3.6",),
    source="Definition: 3.6 MJ are a kilowatt-hour.",
    assumptions=("Joules are of IT energy: PUE is applied here, once.",),
    plots=_plots,
)


@dataclass(frozen=True)
class PowerInputs:
    tokens_per_s: float = number(
        1000, "tok/s", "Throughput", "Per accelerator, of one kind of token.", low=0, high=1e9, symbol="t"
    )
    kw_per_accelerator: float = number(
        1.73, "kW", "Power per accelerator", "Measured, or provisioned all-in: say which beside the result.",
        low=0.001, high=1000, symbol="P",
    )  # fmt: skip
    tokens_per_query: float | None = number(
        None, "tok", "Tokens of a query", "Mean; empty: no energy per query.", low=0, high=1e9, symbol="n"
    )


@dataclass(frozen=True)
class PowerOutputs:
    tokens_per_s_per_mw: float = result("tok/s/MW", "Tokens per megawatt", decimals=1, better="higher")
    tokens_per_j: float = result("tok/J", "Tokens per joule", "Of all sequences of the batch.", decimals=4)
    j_per_token: float | None = result("J/tok", "Energy per token", decimals=6, better="lower")
    j_per_query: float | None = result("J", "Energy per query", decimals=3, better="lower")
    wh_per_query: float | None = result("Wh", "Energy per query", decimals=6, better="lower")


def compute_power(inputs: PowerInputs) -> PowerOutputs:
    watts = inputs.kw_per_accelerator * 1e3
    per_token = watts / inputs.tokens_per_s if inputs.tokens_per_s else None
    n = inputs.tokens_per_query
    per_query = None if per_token is None or n is None else per_token * n
    return PowerOutputs(
        inputs.tokens_per_s / watts * 1e6,
        inputs.tokens_per_s / watts,
        per_token,
        per_query,
        None if per_query is None else per_query / 3600,
    )


TOKENS_PER_MW = Calculator(
    name="tokens-per-mw",
    title="Tokens per megawatt",
    subject="Energy",
    summary="Tokens per second that a megawatt makes, and the energy of a token.",
    inputs=PowerInputs,
    outputs=PowerOutputs,
    compute=compute_power,
    formula=("tokens per MW = t × 1000 / P", "J per token = P × 1000 / t", "Wh per query = n × J per token / 3600"),
    source="Definition; checked against InferenceX (SemiAnalysis).",
    assumptions=("With provisioned power this is what a site must supply, not what the tokens took.",),
)
