"""On the device: how fast a small model decodes there and how far a battery goes.

Decode is bound by memory bandwidth (Williams, Waterman, Patterson 2009, Roofline; Laskaridis et al. 2024, MELTing
point: Mobile Evaluation of Language Transformers, for power and throttling on phones).
"""

from dataclasses import dataclass

from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import number, result


@dataclass(frozen=True)
class Inputs:
    parameters_b: float = number(3, "10⁹", "Parameters", "", low=0.001, high=1000, symbol="N", group="Model")
    weight_bits: float = number(
        4.5,
        "bit",
        "Weight precision",
        "Bits per weight, scales included; Q4_0 has 4.5.",
        low=1,
        high=64,
        group="Model",
    )
    prompt_tokens: int = number(300, "tok", "Prompt", "", low=0, high=1_000_000, symbol="P", group="Load")
    output_tokens: int = number(200, "tok", "Answer", "", low=1, high=1_000_000, symbol="O", group="Load")
    memory_gb: float = number(
        8, "GB", "Memory", "Of the whole device.", low=0.1, high=10_000, symbol="M", group="Device"
    )
    model_share: float = number(
        0.5, "", "Share for the model", "That the system leaves it.", low=0.05, high=1, group="Device"
    )
    bandwidth_gb_s: float = number(
        68,
        "GB/s",
        "Memory bandwidth",
        "LPDDR5X phones 60 to 85, laptops 100 to 550.",
        low=0.1,
        high=10_000,
        symbol="W",
        group="Device",
    )
    bandwidth_efficiency: float = number(
        0.7, "", "Reached share of it", "", low=0.01, high=1, symbol="η", group="Device"
    )
    prefill_tokens_per_s: float = number(
        200, "tok/s", "Prefill speed", "Measured.", low=0.01, high=1e6, symbol="v_p", group="Device"
    )
    sustained_share: float = number(
        0.8, "", "Sustained speed", "Of the first minute's, once warm.", low=0.05, high=1, symbol="σ", group="Device"
    )
    power_w: float = number(
        5, "W", "Power while generating", "Of the whole device.", low=0.01, high=10_000, symbol="p", group="Device"
    )
    idle_w: float = number(
        0.8,
        "W",
        "Power with nothing to do",
        "Screen included, as in use.",
        low=0,
        high=10_000,
        symbol="p_0",
        group="Device",
    )
    battery_wh: float = number(15, "Wh", "Battery", "", low=0.1, high=10_000, symbol="E", group="Device")


@dataclass(frozen=True)
class Outputs:
    tokens_per_s: float = result("tok/s", "Decode, at first", better="higher")
    sustained_tokens_per_s: float = result("tok/s", "Decode, sustained", better="higher")
    j_per_token: float = result("J/tok", "Energy of an output token", "Above idle, sustained.", better="lower")
    tokens_per_charge: float = result("tok", "Tokens per charge", "The whole battery for generating.", better="higher")
    answers_per_charge: float = result("", "Answers per charge", better="higher")
    battery_share_per_answer: float = result("%", "Battery per answer", decimals=3, better="lower")
    wh_per_answer: float = result("Wh", "Energy per answer", "Above idle.", better="lower")
    answer_s: float = result("s", "Time of an answer", "Prefill and decode, sustained.", better="lower")
    generating_h: float = result("h", "Hours of generating", "Until the battery is empty.")
    weights_gb: float = result("GB", "Weights", better="lower")
    fits: bool = result(label="Fits in memory")


def compute(inputs: Inputs) -> Outputs:
    """Speed, energy and battery."""
    weights_gb = inputs.parameters_b * inputs.weight_bits / 8
    first = inputs.bandwidth_gb_s * inputs.bandwidth_efficiency / weights_gb
    sustained = first * inputs.sustained_share
    answer_s = inputs.prompt_tokens / inputs.prefill_tokens_per_s + inputs.output_tokens / sustained
    active_w = max(inputs.power_w - inputs.idle_w, 0.0)
    hours = inputs.battery_wh / inputs.power_w
    answers = hours * 3600 / answer_s
    return Outputs(
        first,
        sustained,
        active_w / sustained,
        hours * 3600 * sustained,
        answers,
        100 / answers,
        active_w * answer_s / 3600,
        answer_s,
        hours,
        weights_gb,
        weights_gb <= inputs.memory_gb * inputs.model_share,
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    precisions = (16.0, 8.5, 4.5)
    size = Axis("Parameters", "10⁹")

    def lines(show: str) -> tuple[Line, ...]:
        return tuple(
            ON_DEVICE.line(inputs, "parameters_b", show, f"{bits:g} bits", weight_bits=bits) for bits in precisions
        )

    return (
        Plot(
            "Decode speed over size",
            size,
            Axis("Decode, sustained", "tok/s", "higher"),
            lines("sustained_tokens_per_s"),
            now=inputs.parameters_b,
        ),
        Plot(
            "Answers per charge over size",
            size,
            Axis("Answers per charge", "", "higher"),
            lines("answers_per_charge"),
            now=inputs.parameters_b,
        ),
    )


ON_DEVICE = Calculator(
    name="on-device",
    title="On the device",
    subject="Deployment",
    summary="A small model on a phone or laptop: decode speed from memory bandwidth, energy per token, and tokens "
    "per battery charge.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "decode = W·η / (N·b), sustained σ·decode",
        "energy per token = (p − p_0) / (σ·decode)",
        "tokens per charge = E / p·3600·σ·decode",
        "answer = P / v_p + O / (σ·decode); answers per charge = E / p·3600 / answer",
    ),
    symbols={"b": "bytes per weight"},
    source="Williams, Waterman, Patterson 2009, Roofline; Laskaridis et al. 2024, MELTing point: Mobile Evaluation of "
    "Language Transformers.",
    assumptions=(
        "One sequence at a time; cache reads are left out.",
        "Power and sustained speed differ much between devices: measure yours.",
        "Per charge counts the device's whole power; per token and answer what generating adds to idle.",
    ),
    plots=_plots,
)
