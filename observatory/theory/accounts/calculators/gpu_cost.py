"""Dollars per million tokens and per query of a machine that is hired or bought."""

from dataclasses import dataclass
from enum import StrEnum

from observatory.theory.accounts import hourly
from observatory.theory.accounts.calculators.frame import refusing
from observatory.theory.accounts.hourly import Denominator, Hour, Terms
from observatory.theory.calculator import Axis, Calculator, Plot, refuse
from observatory.theory.fields import choice, number, result


class CostBasis(StrEnum):
    """Bases that make an hour of a machine; ``api-cost`` has the fourth."""

    RENT = "rent"
    OWN = "own"
    ELECTRICITY = "electricity"


@dataclass(frozen=True)
class Inputs:
    basis: CostBasis = choice(CostBasis.RENT, "Basis", "What an hour is made of: rent, purchase, or electricity alone.")
    accelerators: int = number(
        1, "", "Accelerators", "All that serve, prefill and decode pools together.", low=1, high=100_000, symbol="n_a"
    )
    decode_accelerators: int | None = number(
        None, "", "of them decode", "Where prefill and decode are apart; empty: all do both.", low=1, high=100_000
    )
    output_tokens_per_s: float | None = number(
        500.0, "tok/s", "Output throughput", "Of all accelerators together.", low=1e-6, high=1e12
    )
    input_tokens_per_s: float | None = number(
        None, "tok/s", "Input throughput", "Prompt tokens; leave empty when unknown.", low=1e-6, high=1e12
    )
    queries_per_s: float | None = number(
        None, "req/s", "Query throughput", "Leave empty when unknown.", low=1e-9, high=1e9
    )
    utilisation: float = number(
        1.0, "", "Utilisation", "Share of the paid hours that serve at this throughput.", low=0.001, high=1, symbol="u"
    )
    usd_per_accelerator_hour: float = number(
        2.8, "$/h", "Rent", "Of one accelerator.", low=0, high=1_000, symbol="r", group="Rent"
    )
    terms: Terms = choice(
        Terms.RESERVED, "Terms", "Reserved hours are paid when idle, on-demand ones are given back.", group="Rent"
    )
    capex_usd: float = number(
        30_000, "$", "Purchase", "Of one accelerator with its share of the server.", low=0, high=1e7, group="Own"
    )
    years: float = number(4, "years", "Written off over", "Years of use.", low=0.1, high=30, symbol="n", group="Own")
    power_w: float = number(
        700, "W", "IT power", "Mean, of one accelerator with its share of the host.", low=0, high=1e6, group="Own"
    )
    pue: float = number(1.2, "", "PUE", "Facility energy over IT energy.", low=1, high=5, group="Own")
    electricity_usd_per_kwh: float = number(0.09, "$/kWh", "Electricity", "Price paid.", low=0, high=10, group="Own")
    sold_output_usd: float | None = number(
        None, "$/Mtok", "Output sold at", "For the margin.", low=1e-9, high=1e6, group="Margin"
    )
    sold_input_usd: float | None = number(
        None, "$/Mtok", "Input sold at", "For the margin.", low=1e-9, high=1e6, group="Margin"
    )


@dataclass(frozen=True)
class Outputs:
    usd_per_hour: float = result("$/h", "An hour of serving", "All accelerators, utilisation in it.", better="lower")
    usd_per_mtok_output: float | None = result(
        "$/Mtok", "Per M output tokens", "Output carries the whole hour.", decimals=4, better="lower"
    )
    usd_per_mtok_input: float | None = result(
        "$/Mtok", "Per M input tokens", "Input carries the whole hour.", decimals=4, better="lower"
    )
    usd_per_mtok_total: float | None = result(
        "$/Mtok", "Per M tokens", "Input and output carry it together.", decimals=4, better="lower"
    )
    usd_per_query: float | None = result("$", "Per query", better="lower")
    capital_usd_per_hour: float | None = result("$/h", "of it purchase", "Only for own.")
    electricity_usd_per_hour: float | None = result("$/h", "of it electricity", "Not for rent.")
    tokens_per_s_per_accelerator: float | None = result(
        "tok/s", "Output per accelerator", "Over all of them, prefill pool included.", better="higher"
    )
    tokens_per_s_per_decode_accelerator: float | None = result(
        "tok/s", "Output per decode accelerator", "Over the decode pool only; not to be compared with the one above."
    )
    margin_output: float | None = result("", "Margin of output", "1 − cost / price.", decimals=3, better="higher")
    margin_input: float | None = result("", "Margin of input", "1 − cost / price.", decimals=3, better="higher")
    how: str = result(label="The hour", help="How the price of the hour comes about.", default="")


def hour(inputs: Inputs) -> Hour:
    """The hour of all accelerators on the chosen basis."""
    if inputs.basis is CostBasis.RENT:
        return hourly.rent(
            inputs.usd_per_accelerator_hour, inputs.accelerators, terms=inputs.terms, utilisation=inputs.utilisation
        )
    power_w = inputs.power_w * inputs.accelerators
    if inputs.basis is CostBasis.ELECTRICITY:
        return hourly.electricity(power_w, inputs.pue, inputs.electricity_usd_per_kwh).shared(
            inputs.utilisation, "of it serves"
        )
    return hourly.own(
        inputs.capex_usd * inputs.accelerators,
        inputs.years,
        power_w=power_w,
        pue=inputs.pue,
        usd_per_kwh=inputs.electricity_usd_per_kwh,
        utilisation=inputs.utilisation,
    )


@refusing
def compute(inputs: Inputs) -> Outputs:
    output, given = inputs.output_tokens_per_s, inputs.input_tokens_per_s
    if output is None and given is None and inputs.queries_per_s is None:
        raise refuse("output_tokens_per_s", "No throughput is given.", "Give tokens or queries per second.")
    if inputs.decode_accelerators is not None and inputs.decode_accelerators > inputs.accelerators:
        raise refuse(
            "decode_accelerators",
            "There are more of them than accelerators in all.",
            "Count both pools in accelerators.",
        )
    found = hour(inputs)

    def per(tokens_per_s: float | None, of: Denominator) -> float | None:
        return None if tokens_per_s is None else hourly.token_price(found.usd, tokens_per_s, of).usd

    output_usd, input_usd = per(output, Denominator.OUTPUT), per(given, Denominator.INPUT)
    return Outputs(
        usd_per_hour=found.usd,
        usd_per_mtok_output=output_usd,
        usd_per_mtok_input=input_usd,
        usd_per_mtok_total=per(output + given, Denominator.TOTAL) if output and given else None,
        usd_per_query=hourly.query_price(found.usd, inputs.queries_per_s) if inputs.queries_per_s else None,
        capital_usd_per_hour=found.capital_usd,
        electricity_usd_per_hour=found.electricity_usd,
        tokens_per_s_per_accelerator=output / inputs.accelerators if output else None,
        tokens_per_s_per_decode_accelerator=output / inputs.decode_accelerators
        if output and inputs.decode_accelerators
        else None,
        margin_output=_margin(output_usd, inputs.sold_output_usd),
        margin_input=_margin(input_usd, inputs.sold_input_usd),
        how=found.words,
    )


def _margin(cost_usd: float | None, sold_usd: float | None) -> float | None:
    return None if cost_usd is None or sold_usd is None else 1 - cost_usd / sold_usd


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    line = GPU_COST.line(inputs, "utilisation", "usd_per_mtok_output", inputs.basis.value)
    x, y = Axis("Utilisation"), Axis("Per M output tokens", "$/Mtok", "lower")
    return (Plot("Cost over utilisation", x, y, (line,), now=inputs.utilisation),)


GPU_COST = Calculator(
    name="gpu-cost",
    title="Cost of tokens from machines",
    subject="Money",
    summary="Dollars per million tokens and per query of accelerators that are hired, bought, or counted by their "
    "electricity alone. Each price names the tokens that carry the hour.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "$ per M = h / (t × 0.0036)",
        "rent: h = r × n_a / u; on demand: h = r × n_a",
        "own: h = (purchase / (n × 8760) + kW × PUE × $/kWh) / u",
        "electricity: h = kW × PUE × $/kWh / u",
    ),
    symbols={"h": "price of an hour of serving", "t": "tokens per second of the named denominator"},
    source="Definition; checked against the published table of InferenceX (SemiAnalysis).",
    assumptions=(
        "Prices per output, per input and per total token each carry the whole hour: never add two of them.",
        "Bought machines draw the same power when idle; staff, space and interest are left out.",
    ),
    plots=_plots,
)
