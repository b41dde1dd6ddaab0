"""Prefill and decode on pools of their own: how many of each, and what sending the cache between them takes.

Zhong et al. 2024, DistServe; Patel et al. 2024, Splitwise. Waiting for prefill: M/D/1 (Pollaczek-Khinchine), requests
split at random over the workers.
"""

from dataclasses import dataclass, replace
from math import ceil

from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.common import GIGA, Cache, cache_bytes_per_token
from observatory.theory.fields import number, result


@dataclass(frozen=True)
class Traffic:
    requests_per_s: float = number(
        10, "req/s", "Requests", "Arriving in all.", low=0.001, high=1e6, symbol="λ", group="Load"
    )
    prompt_tokens: int = number(
        2000, "tok", "Prompt", "Mean, not cached.", low=1, high=10_000_000, symbol="P", group="Load"
    )
    output_tokens: int = number(300, "tok", "Answer", "Mean.", low=1, high=10_000_000, symbol="O", group="Load")
    prefill_tokens_per_s: float = number(
        20_000,
        "tok/s",
        "Prefill speed of a worker",
        "Measured, or from prefill.",
        low=0.1,
        high=1e8,
        symbol="v_p",
        group="Workers",
    )
    decode_tokens_per_s: float = number(
        3000,
        "tok/s",
        "Decode speed of a worker",
        "Over its batch, at the pace that users are promised.",
        low=0.1,
        high=1e8,
        symbol="v_d",
        group="Workers",
    )
    target_load: float = number(
        0.7,
        "",
        "Highest load of a pool",
        "Busy share; the rest absorbs bursts.",
        low=0.05,
        high=0.99,
        symbol="ρ",
        group="Workers",
    )
    interference: float = number(
        0.2,
        "",
        "Interference when colocated",
        "Share of a worker's time that mixing both phases costs within the promised pace, as measured.",
        low=0,
        high=0.95,
        symbol="i",
        group="Workers",
    )
    link_gb_s: float = number(
        50,
        "GB/s",
        "Link between the pools",
        "Of one prefill worker, one direction: 50 for 400 Gb/s.",
        low=0.001,
        high=1e6,
        symbol="W_l",
        group="Workers",
    )


@dataclass(frozen=True)
class Inputs(Cache, Traffic):
    """Traffic, workers and the shape of the cache."""


@dataclass(frozen=True)
class Outputs:
    prefill_workers: int = result("", "Prefill workers", better="lower")
    decode_workers: int = result("", "Decode workers", better="lower")
    workers: int = result("", "Workers in all", better="lower")
    colocated_workers: int = result("", "Colocated workers", "For the same traffic, each doing both.", better="lower")
    prefill_load: float = result("%", "Load of the prefill pool", decimals=0)
    decode_load: float = result("%", "Load of the decode pool", decimals=0)
    prefill_ms: float = result("ms", "Prefill")
    wait_ms: float = result("ms", "Wait for prefill", "Mean.", better="lower")
    cache_gb: float = result("GB", "Cache sent per request")
    transfer_ms: float = result("ms", "Transfer", "Whole, after prefill.", better="lower")
    overlapped_ms: float = result(
        "ms", "Transfer, sent layer by layer", "What is left when it overlaps with prefill.", better="lower"
    )
    ttft_ms: float = result("ms", "TTFT", "Wait, prefill and whole transfer.", better="lower")
    link_load: float = result("%", "Load of the links", "Of the prefill pool.", decimals=1, better="lower")
    link_limited: bool = result(label="Links too slow", help="More is to be sent than they carry.")


@dataclass(frozen=True)
class Pools:
    """Workers as real numbers that the traffic keeps busy."""

    prefill: float
    decode: float


def busy(inputs: Inputs) -> Pools:
    """Little's law: workers that are busy on average, lambda times the time of one request."""
    return Pools(
        inputs.requests_per_s * inputs.prompt_tokens / inputs.prefill_tokens_per_s,
        inputs.requests_per_s * inputs.output_tokens / inputs.decode_tokens_per_s,
    )


def _workers(busy_workers: float, load: float) -> int:
    return max(1, ceil(busy_workers / load - 1e-9))


def compute(inputs: Inputs) -> Outputs:
    """Pool sizes, waits and transfer."""
    need = busy(inputs)
    prefill, decode = _workers(need.prefill, inputs.target_load), _workers(need.decode, inputs.target_load)
    colocated = _workers((need.prefill + need.decode) / (1 - inputs.interference), inputs.target_load)
    load = need.prefill / prefill
    read_s = inputs.prompt_tokens / inputs.prefill_tokens_per_s
    wait_s = read_s * load / (2 * (1 - load))
    sent = inputs.prompt_tokens * cache_bytes_per_token(inputs)
    transfer_s = sent / (inputs.link_gb_s * GIGA)
    link = inputs.requests_per_s * transfer_s / prefill
    return Outputs(
        prefill,
        decode,
        prefill + decode,
        colocated,
        100 * load,
        100 * need.decode / decode,
        read_s * 1e3,
        wait_s * 1e3,
        sent / GIGA,
        transfer_s * 1e3,
        max(transfer_s - read_s * (1 - 1 / inputs.layers), transfer_s / inputs.layers) * 1e3,
        (wait_s + read_s + transfer_s) * 1e3,
        100 * link,
        link > 1,
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    kinds = {
        "prefill_workers": "prefill",
        "decode_workers": "decode",
        "workers": "both pools",
        "colocated_workers": "colocated",
    }
    rates = [inputs.requests_per_s * 2 ** ((step - 16) / 4) for step in range(33)]
    found = [compute(replace(inputs, requests_per_s=rate)) for rate in rates]
    lines = tuple(
        Line(label, tuple(rates), tuple(float(getattr(at, name)) for at in found), dashed=name == "colocated_workers")
        for name, label in kinds.items()
    )
    transfer = DISAGGREGATION.line(inputs, "prompt_tokens", "transfer_ms", "transfer")
    prefill = DISAGGREGATION.line(inputs, "prompt_tokens", "prefill_ms", "prefill")
    return (
        Plot(
            "Workers over traffic",
            Axis("Requests", "req/s"),
            Axis("Workers", "", "lower"),
            lines,
            now=inputs.requests_per_s,
        ),
        Plot(
            "Prefill and transfer over prompt",
            Axis("Prompt", "tok"),
            Axis("Time", "ms", "lower"),
            (prefill, transfer),
            now=inputs.prompt_tokens,
        ),
    )


DISAGGREGATION = Calculator(
    name="disaggregation",
    title="Disaggregated serving",
    subject="Deployment",
    summary="How many prefill and decode workers a traffic needs, what sending the KV cache between them takes, and "
    "how many colocated workers would do.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "prefill workers = ⌈λ·P / (v_p·ρ)⌉, decode workers = ⌈λ·O / (v_d·ρ)⌉",
        "colocated = ⌈λ·(P/v_p + O/v_d) / ((1 − i)·ρ)⌉",
        "transfer = P·c / W_l, c = 2·L·h_kv·d·b_kv (MLA: L·d_c·b_kv)",
        "wait = P/v_p·ρ_p / (2·(1 − ρ_p))",
    ),
    symbols={"c": "cache of one token", "b_kv": "bytes per cached value", "ρ_p": "load of the prefill pool"},
    source="Zhong et al. 2024, DistServe; Patel et al. 2024, Splitwise; M/D/1 wait: Pollaczek-Khinchine.",
    assumptions=(
        "A worker is one copy of the model. All have the same speed in both phases as given.",
        "Requests arrive at random, prompts have the mean length, and are split at random over the prefill workers.",
        "Interference is an input: chunked prefill lowers it, so measure it before deciding.",
        "Sent layer by layer, all but the last layer's cache can go while later layers compute.",
    ),
    plots=_plots,
)
