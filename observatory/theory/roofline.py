"""A measured run against the limit of its hardware: MBU, MFU, joules per byte, and a flag when it beats physics.

MBU: bytes that decoding must move per second, over peak bandwidth (Databricks 2023, LLM Inference Performance
Engineering). MFU: arithmetic of the model per second, over peak (Chowdhery et al. 2022, PaLM, appendix B).
"""

from dataclasses import dataclass, replace

from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.common import (
    GIGA,
    TERA,
    Cache,
    Hardware,
    Weights,
    active,
    cache_bytes_per_token,
    cache_share,
    touched,
)
from observatory.theory.fields import number, result

#: What measuring itself may err: a share above it is more than the hardware can do.
_TOLERANCE = 1.02
_IMPOSSIBLE = (
    "Faster than the hardware allows. Check the token counts (usage against tokenizer), the model and its precision, "
    "speculative decoding or a prefix cache, and the number and kind of accelerators."
)


@dataclass(frozen=True)
class Measured:
    tpot_ms: float | None = number(
        25, "ms", "TPOT", "Measured, median. Empty: not measured.", low=1e-4, high=1e7, group="Measured"
    )
    concurrency: float = number(
        16, "", "Sequences together", "Measured concurrency.", low=0.01, high=1e6, symbol="B", group="Measured"
    )
    context: float = number(
        1200, "tok", "Context", "Mean: prompt and half the answer.", low=0, high=1e7, symbol="T", group="Measured"
    )
    ttft_ms: float | None = number(
        300,
        "ms",
        "TTFT",
        "Measured with no queue, at concurrency 1. Empty: not measured.",
        low=1e-3,
        high=1e8,
        group="Measured",
    )
    prompt_tokens: float = number(
        1000, "tok", "Prompt", "Measured, not cached.", low=1, high=1e7, symbol="P", group="Measured"
    )
    power_w: float | None = number(
        None,
        "W",
        "Power",
        "Mean, of one copy of the model. Empty: not measured.",
        low=0,
        high=1e8,
        symbol="p",
        group="Measured",
    )


@dataclass(frozen=True)
class Inputs(Hardware, Cache, Weights, Measured):
    """What was measured, on which model and hardware. ``utilisation`` of the peak is not used for limits."""

    utilisation: float = number(
        1.0,
        "",
        "Utilisation of the peak",
        "1: the limit is what the data sheet allows.",
        low=0.01,
        high=1,
        symbol="u",
        group="Hardware",
    )


@dataclass(frozen=True)
class Outputs:
    verdict: str = result(label="Verdict")
    beats_physics: bool = result(label="Beats physics", help="More than the hardware can do: some input is wrong.")
    mbu: float | None = result("%", "MBU", "Memory bandwidth that decoding used.", decimals=1, better="higher")
    decode_mfu: float | None = result("%", "MFU, decode", "Arithmetic that decoding used.", decimals=2, better="higher")
    prefill_mfu: float | None = result("%", "MFU, prefill", "Of the first token's time.", decimals=1, better="higher")
    decode_share: float | None = result("%", "Decode, of what the hardware allows", decimals=1, better="higher")
    prefill_share: float | None = result("%", "Prefill, of what the hardware allows", decimals=1, better="higher")
    limit_tpot_ms: float = result("ms", "TPOT at the limit")
    limit_ttft_ms: float = result("ms", "TTFT at the limit")
    bytes_per_step_gb: float = result("GB", "Read per step", "Weights and cache, over all accelerators.")
    bound: str = result(label="Decode is bound by")
    pj_per_byte: float | None = result("pJ/B", "Energy per byte read", better="lower")
    j_per_token: float | None = result("J/tok", "Energy per output token", better="lower")


@dataclass(frozen=True)
class Limit:
    """What one decode step and one prefill need at least."""

    read_bytes: float
    decode_flop: float
    prefill_flop: float
    memory_s: float
    compute_s: float
    prefill_s: float

    @property
    def step_s(self) -> float:
        return max(self.memory_s, self.compute_s)


def limit(inputs: Inputs) -> Limit:
    """Weights that the batch touches and the cache, against bandwidth; arithmetic against peak."""
    used = active(inputs)
    weights = touched(inputs, max(inputs.concurrency, 1.0)) * inputs.weight_bits / 8
    copies = cache_share(inputs, inputs.accelerators) * inputs.accelerators
    read = weights + inputs.concurrency * inputs.context * cache_bytes_per_token(inputs) * copies
    flops = inputs.peak_tflops * TERA * inputs.accelerators * inputs.utilisation
    bandwidth = inputs.bandwidth_gb_s * GIGA * inputs.accelerators
    decode, prefill = 2 * used * inputs.concurrency, 2 * used * inputs.prompt_tokens
    prompt_read = touched(inputs, inputs.prompt_tokens) * inputs.weight_bits / 8
    return Limit(read, decode, prefill, read / bandwidth, decode / flops, max(prefill / flops, prompt_read / bandwidth))


def compute(inputs: Inputs) -> Outputs:
    """Shares of what the hardware allows. What was not measured stays missing."""
    at = limit(inputs)
    tpot_s = None if inputs.tpot_ms is None else inputs.tpot_ms / 1e3
    ttft_s = None if inputs.ttft_ms is None else inputs.ttft_ms / 1e3
    decode, prefill = _share(at.step_s, tpot_s), _share(at.prefill_s, ttft_s)
    peak = inputs.peak_tflops * TERA * inputs.accelerators
    energy_j = None if inputs.power_w is None or tpot_s is None else inputs.power_w * tpot_s
    beats = any(share is not None and share > 100 * _TOLERANCE for share in (decode, prefill))
    return Outputs(
        _verdict(decode, prefill, beats),
        beats,
        _share(at.memory_s, tpot_s),
        _share(at.decode_flop / peak, tpot_s),
        _share(at.prefill_flop / peak, ttft_s),
        decode,
        prefill,
        at.step_s * 1e3,
        at.prefill_s * 1e3,
        at.read_bytes / GIGA,
        "memory" if at.memory_s >= at.compute_s else "compute",
        None if energy_j is None else energy_j / at.read_bytes * 1e12,
        None if energy_j is None else energy_j / inputs.concurrency,
    )


def _share(needed_s: float, taken_s: float | None) -> float | None:
    return None if taken_s is None else 100 * needed_s / taken_s


def _verdict(decode: float | None, prefill: float | None, beats: bool) -> str:
    if beats:
        return _IMPOSSIBLE
    parts = [
        f"{name} reaches {share:.0f} %"
        for name, share in (("Decode", decode), ("prefill", prefill))
        if share is not None
    ]
    if not parts:
        return "Nothing was measured."
    words = " and ".join(parts) + " of what the hardware allows."
    return words[0].upper() + words[1:]


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    batches = tuple(float(2**power) for power in range(11))
    limits = [limit(replace(inputs, concurrency=batch)) for batch in batches]
    best = Line(
        "limit", batches, tuple(batch / at.step_s for batch, at in zip(batches, limits, strict=True)), dashed=True
    )
    lines: tuple[Line, ...] = (best,)
    if inputs.tpot_ms is not None:
        measured = inputs.concurrency / (inputs.tpot_ms / 1e3)
        lines = (best, Line("measured", (inputs.concurrency,), (measured,), points=True))
    return (
        Plot(
            "Decode throughput: measured against the limit",
            Axis("Sequences together"),
            Axis("Output, in all", "tok/s", "higher"),
            lines,
        ),
    )


ROOFLINE = Calculator(
    name="roofline",
    title="Roofline of a run",
    subject="Two phases",
    summary="A measured run against its hardware and model: shares of bandwidth and of peak, energy per byte, and a "
    "flag when it beats physics.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "read = weights touched + B·T·c·copies, MBU = read / (TPOT·W·G)",
        "MFU decode = 2·A·B / (TPOT·F·G), MFU prefill = 2·A·P / (TTFT·F·G)",
        "limit = max(read / (W·G), 2·A·B / (F·G·u)), share = limit / TPOT",
        "energy per byte = p·TPOT / read",
    ),
    symbols={"c": "cache of one token", "copies": "of the cache, where heads or latents are held more than once"},
    source="Williams, Waterman, Patterson 2009, Roofline; Databricks 2023, LLM Inference Performance Engineering: Best "
    "Practices (MBU); Chowdhery et al. 2022, PaLM, appendix B (MFU).",
    assumptions=(
        "TTFT without a queue holds nothing but prefill: with one, the prefill share is too low.",
        "Attention arithmetic is left out of the limits, which makes them easier to reach, never harder.",
        "With speculative decoding a step gives several tokens, and decode may pass 100 % rightly.",
    ),
    plots=_plots,
)
