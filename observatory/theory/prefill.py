"""Prefill: how long reading a prompt takes at best.

Two operations per parameter and token, and four per layer, head width and pair of tokens for attention, of which the
causal mask needs half (Kaplan et al. 2020, Scaling Laws for Neural Language Models, section 2.1; Korthikanti et al.
2022, Reducing Activation Recomputation in Large Transformer Models, appendix A).
"""

from dataclasses import dataclass, replace

from observatory.theory.calculator import Axis, Calculator, Plot, refuse
from observatory.theory.common import ACTIVATION_BYTES, GIGA, TERA, Hardware, Weights, active, all_reduce_s, touched
from observatory.theory.fields import number, result

_TABLE_PROMPTS = (128, 512, 2048, 8192, 32_768, 131_072)


@dataclass(frozen=True)
class Prompt:
    prompt_tokens: int = number(2048, "tok", "Prompt", "", low=1, high=10_000_000, symbol="P", group="Load")
    cached_tokens: int = number(
        0, "tok", "Found in the prefix cache", "Part of the prompt.", low=0, high=10_000_000, symbol="C", group="Load"
    )
    requests: int = number(1, "", "Requests together", "", low=1, high=4096, symbol="R", group="Load")


@dataclass(frozen=True)
class Shape:
    layers: int = number(80, "", "Layers", "", low=1, high=1000, symbol="L", group="Model")
    hidden: int = number(8192, "", "Hidden width", "", low=1, high=1_000_000, symbol="d_h", group="Model")
    heads: int = number(64, "", "Query heads", "", low=1, high=4096, symbol="h", group="Model")
    head_dim: int = number(128, "", "Width of a head", "", low=1, high=4096, symbol="d", group="Model")
    link_gb_s: float | None = number(
        450,
        "GB/s",
        "Link",
        "Of one accelerator to the others, one direction. Empty leaves all-reduces out.",
        low=0.1,
        high=1e6,
        symbol="W_l",
        group="Hardware",
    )


@dataclass(frozen=True)
class Inputs(Shape, Hardware, Weights, Prompt):
    """Prompt, model and hardware."""


@dataclass(frozen=True)
class Row:
    prompt_tokens: int = result("tok", "Prompt")
    prefill_ms: float = result("ms", "Prefill")
    tokens_per_s: float = result("tok/s", "Speed")
    attention_share: float = result("%", "Attention's share", decimals=1)


@dataclass(frozen=True)
class Outputs:
    prefill_ms: float = result("ms", "Prefill", "The part of TTFT that the model takes, at best.", better="lower")
    tokens_per_s: float = result("tok/s", "Prompt tokens read", "Cached ones not counted.", better="higher")
    compute_ms: float = result("ms", "Arithmetic")
    memory_ms: float = result("ms", "Reading weights", "Runs meanwhile: binds for short prompts only.")
    links_ms: float = result("ms", "All-reduces")
    attention_share: float = result("%", "Attention's share", "Of the arithmetic; grows with the prompt.", decimals=1)
    uncached_ms: float = result("ms", "Without the cache", "Prefill of the whole prompt.")
    bound: str = result(label="Bound")
    table: tuple[Row, ...] = result(label="By prompt length", help="nothing cached")


@dataclass(frozen=True)
class Pass:
    """Seconds of one prefill by cause."""

    linear_s: float
    attention_s: float
    memory_s: float
    links_s: float

    @property
    def compute_s(self) -> float:
        return self.linear_s + self.attention_s

    @property
    def total_s(self) -> float:
        return max(self.compute_s, self.memory_s) + self.links_s


def prefill(inputs: Inputs) -> Pass:
    """New tokens attend to all before them: pairs = (P^2 - C^2) / 2."""
    new = inputs.prompt_tokens - inputs.cached_tokens
    flops = inputs.peak_tflops * TERA * inputs.accelerators * inputs.utilisation
    pairs = (inputs.prompt_tokens**2 - inputs.cached_tokens**2) / 2
    linear = 2 * active(inputs) * new * inputs.requests
    attention = 4 * inputs.layers * inputs.heads * inputs.head_dim * pairs * inputs.requests
    read = touched(inputs, new * inputs.requests) * inputs.weight_bits / 8
    message = new * inputs.requests * inputs.hidden * ACTIVATION_BYTES
    links = 0.0
    if inputs.link_gb_s is not None:
        links = 2 * inputs.layers * all_reduce_s(message, inputs.accelerators, inputs.link_gb_s, 0.0)
    bandwidth = inputs.bandwidth_gb_s * GIGA * inputs.accelerators
    return Pass(linear / flops, attention / flops, read / bandwidth, links)


def _row(inputs: Inputs, prompt_tokens: int) -> Row:
    taken = prefill(replace(inputs, prompt_tokens=prompt_tokens, cached_tokens=0))
    speed = prompt_tokens * inputs.requests / taken.total_s
    return Row(prompt_tokens, taken.total_s * 1e3, speed, 100 * taken.attention_s / taken.compute_s)


def compute(inputs: Inputs) -> Outputs:
    """Prefill time by cause."""
    if inputs.cached_tokens >= inputs.prompt_tokens:
        raise refuse("cached_tokens", "At least one token must be read anew.", f"At most {inputs.prompt_tokens - 1}.")
    taken = prefill(inputs)
    new = inputs.prompt_tokens - inputs.cached_tokens
    return Outputs(
        taken.total_s * 1e3,
        new * inputs.requests / taken.total_s,
        taken.compute_s * 1e3,
        taken.memory_s * 1e3,
        taken.links_s * 1e3,
        100 * taken.attention_s / taken.compute_s,
        prefill(replace(inputs, cached_tokens=0)).total_s * 1e3,
        "compute" if taken.compute_s > taken.memory_s else "memory",
        tuple(_row(inputs, prompt_tokens) for prompt_tokens in _TABLE_PROMPTS),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    none = PREFILL.line(inputs, "prompt_tokens", "prefill_ms", "nothing cached", cached_tokens=0)
    speed = PREFILL.line(inputs, "prompt_tokens", "tokens_per_s", "nothing cached", cached_tokens=0)
    cached = PREFILL.line(inputs, "prompt_tokens", "prefill_ms", f"{inputs.cached_tokens} cached")
    prompt = Axis("Prompt", "tok")
    return (
        Plot(
            "Prefill over prompt length",
            prompt,
            Axis("Prefill", "ms", "lower"),
            (none, cached) if inputs.cached_tokens else (none,),
            now=inputs.prompt_tokens,
        ),
        Plot(
            "Speed over prompt length",
            prompt,
            Axis("Prompt tokens", "tok/s", "higher"),
            (speed,),
            now=inputs.prompt_tokens,
        ),
    )


PREFILL = Calculator(
    name="prefill",
    title="Prefill time",
    subject="Two phases",
    summary="How long a prompt takes until the first token at best: arithmetic, attention that grows with the square "
    "of the prompt, links, and what a prefix cache leaves to do.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "t = max(t_comp, t_mem) + t_links",
        "t_comp = R·(2·A·(P − C) + 2·L·h·d·(P^2 − C^2)) / (F·G·u)",
        "t_mem = N·b / (W·G)",
        "t_links = 2·L·2·(G−1)/G·2·R·(P − C)·d_h / W_l",
    ),
    symbols={"b": "bytes per weight"},
    source="Kaplan et al. 2020, Scaling Laws for Neural Language Models, section 2.1; Korthikanti et al. 2022, "
    "Reducing Activation Recomputation in Large Transformer Models, appendix A; ring all-reduce: Patarasuk and Yuan "
    "2009.",
    assumptions=(
        "No queue: TTFT is longer by waiting, tokenizing, and the first decode step.",
        "Tensor parallelism over all accelerators; 16-bit activations; links do not overlap with arithmetic.",
        "Full causal attention in every layer: sliding windows take less.",
    ),
    plots=_plots,
)
