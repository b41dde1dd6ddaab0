"""The decode limit: what memory, arithmetic, links and launches allow each step of a model.

Simple model: a step reads every weight once and spends two operations per parameter and sequence (Kaplan et al. 2020,
Scaling Laws for Neural Language Models, section 2.1; Williams, Waterman, Patterson 2009, Roofline). The whole model
adds what the simple one leaves out: cache reads, attention arithmetic, an all-reduce after each half of a layer
(Shoeybi et al. 2019, Megatron-LM), launches (Pope et al. 2022, Efficiently Scaling Transformer Inference).
"""

from dataclasses import dataclass, replace
from math import floor

from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.common import (
    ACTIVATION_BYTES,
    GIGA,
    TERA,
    Cache,
    Hardware,
    Memory,
    Weights,
    active,
    all_reduce_s,
    cache_bytes_per_token,
    cache_share,
    touched,
    weight_bytes,
)
from observatory.theory.fields import number, result

_TABLE_BITS = (16, 8, 4)
_TABLE_BATCHES = (1, 32, 256)
_MOST_SEQUENCES = 1 << 20


@dataclass(frozen=True)
class Load:
    batch: int = number(32, "", "Batch", "Sequences decoded together.", low=1, high=65_536, symbol="B", group="Load")
    context: int = number(
        2048,
        "tok",
        "Context",
        "Mean tokens of a sequence in the cache; 0 leaves cache reads out.",
        low=0,
        high=10_000_000,
        symbol="T",
        group="Load",
    )


@dataclass(frozen=True)
class Links:
    hidden: int = number(8192, "", "Hidden width", "", low=1, high=1_000_000, symbol="d_h", group="Model")
    heads: int = number(64, "", "Query heads", "", low=1, high=4096, symbol="h", group="Model")
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
    link_latency_us: float = number(
        5, "µs", "Link latency", "Of one all-reduce.", low=0, high=100_000, group="Hardware"
    )
    launch_us: float = number(
        100,
        "µs",
        "Launch and scheduling",
        "Per step, not hidden behind the arithmetic.",
        low=0,
        high=1_000_000,
        group="Hardware",
    )


@dataclass(frozen=True)
class Inputs(Memory, Links, Hardware, Cache, Weights, Load):
    """Load, model and hardware."""


@dataclass(frozen=True)
class Row:
    precision: str = result(label="Precision")
    batch: int = result("", "Batch")
    tokens_per_s: float = result("tok/s", "Per sequence, simple", decimals=0)
    total_tokens_per_s: float = result("tok/s", "In all, simple", decimals=0)
    bound: str = result(label="Bound")
    full_tokens_per_s: float = result("tok/s", "Per sequence, all terms", decimals=0)
    full_total_tokens_per_s: float = result("tok/s", "In all, all terms", decimals=0)
    full_bound: str = result(label="Bound, all terms")


@dataclass(frozen=True)
class Outputs:
    tokens_per_s: float = result("tok/s", "Per sequence", "All terms: what one user sees at best.", better="higher")
    total_tokens_per_s: float = result("tok/s", "In all", "All terms, over the batch.", better="higher")
    bound: str = result(label="Bound", help="What the step waits for longest.")
    step_ms: float = result("ms", "Step", "One token for each sequence.", better="lower")
    weights_ms: float = result("ms", "Reading weights")
    cache_ms: float = result("ms", "Reading the cache")
    compute_ms: float = result("ms", "Arithmetic", "Runs while memory is read.")
    links_ms: float = result("ms", "All-reduces")
    simple_tokens_per_s: float = result("tok/s", "Per sequence, simple", "Weights and arithmetic alone.", decimals=0)
    simple_total_tokens_per_s: float = result("tok/s", "In all, simple", decimals=0)
    crossover_batch: float = result("", "Crossover batch", "Simple: above it arithmetic binds.")
    full_crossover_batch: int | None = result(
        "", "Crossover batch, all terms", "Missing where cache reads keep every batch memory-bound."
    )
    weights_gb: float = result("GB", "Weights in memory")
    cache_gb: float = result("GB", "Cache in memory", "Over all accelerators.")
    fits: bool = result(label="Fits in memory")
    largest_batch: int = result("", "Largest batch that fits", "At this context.")
    table: tuple[Row, ...] = result(label="By precision and batch", help="simple: no cache, links or launches")


@dataclass(frozen=True)
class Step:
    """Seconds of one decode step by cause; memory and arithmetic overlap, the rest does not."""

    weights_s: float
    cache_s: float
    compute_s: float
    links_s: float
    launch_s: float

    @property
    def memory_s(self) -> float:
        return self.weights_s + self.cache_s

    @property
    def total_s(self) -> float:
        return max(self.memory_s, self.compute_s) + self.links_s + self.launch_s

    @property
    def bound(self) -> str:
        """ "memory", "compute", "links" or "launch": the longest."""
        parts = {"memory": self.memory_s, "compute": self.compute_s, "links": self.links_s, "launch": self.launch_s}
        return max(parts, key=lambda name: parts[name])


def simple_step(inputs: Inputs) -> Step:
    """t_mem = N*b / (W*G), t_comp = 2*A*B / (F*G*u)."""
    memory_s = weight_bytes(inputs) / (inputs.bandwidth_gb_s * GIGA * inputs.accelerators)
    return Step(memory_s, 0.0, 2 * active(inputs) * inputs.batch / _flops(inputs), 0.0, 0.0)


def full_step(inputs: Inputs) -> Step:
    """With experts, cache reads, attention arithmetic, all-reduces and launches."""
    bandwidth = inputs.bandwidth_gb_s * GIGA
    weights = touched(inputs, inputs.batch) * inputs.weight_bits / 8 / (bandwidth * inputs.accelerators)
    cached = inputs.batch * inputs.context * cache_bytes_per_token(inputs) * cache_share(inputs, inputs.accelerators)
    attention = 4 * inputs.layers * inputs.heads * (inputs.latent_dim or inputs.head_dim) * inputs.context
    compute = inputs.batch * (2 * active(inputs) + attention) / _flops(inputs)
    return Step(weights, cached / bandwidth, compute, _links_s(inputs), inputs.launch_us * 1e-6)


def _flops(inputs: Hardware) -> float:
    return inputs.peak_tflops * TERA * inputs.accelerators * inputs.utilisation


def _links_s(inputs: Inputs) -> float:
    if inputs.link_gb_s is None:
        return 0.0
    message = inputs.batch * inputs.hidden * ACTIVATION_BYTES
    return 2 * inputs.layers * all_reduce_s(message, inputs.accelerators, inputs.link_gb_s, inputs.link_latency_us)


def crossover(inputs: Inputs) -> float:
    """Batch at which t_mem = t_comp in the simple model."""
    step = simple_step(replace(inputs, batch=1))
    return step.weights_s / step.compute_s


def _full_crossover(inputs: Inputs) -> int | None:
    """Smallest batch whose arithmetic takes longer than its reads, all terms; None when there is none."""

    def binds(batch: int) -> bool:
        step = full_step(replace(inputs, batch=batch))
        return step.compute_s > step.memory_s

    low, high = 1, _MOST_SEQUENCES
    if not binds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if binds(middle) else (middle + 1, high)
    return low


def largest_batch(inputs: Inputs) -> int:
    """Sequences whose cache fits beside the weights, on each accelerator; 0 when the weights do not fit."""
    free = inputs.memory_gb * GIGA * inputs.usable_share - weight_bytes(inputs) / inputs.accelerators
    each = inputs.context * cache_bytes_per_token(inputs) * cache_share(inputs, inputs.accelerators)
    if free < 0:
        return 0
    return _MOST_SEQUENCES if each == 0 else min(_MOST_SEQUENCES, floor(free / each))


def _row(inputs: Inputs, bits: float, batch: int) -> Row:
    at = replace(inputs, weight_bits=bits, batch=batch)
    simple, full = simple_step(at), full_step(at)
    bound = "memory" if simple.weights_s >= simple.compute_s else "compute"
    return Row(
        f"{bits:g}-bit",
        batch,
        1 / simple.total_s,
        batch / simple.total_s,
        bound,
        1 / full.total_s,
        batch / full.total_s,
        full.bound,
    )


def compute(inputs: Inputs) -> Outputs:
    """Step time by cause, throughput, crossover and memory."""
    simple, full = simple_step(inputs), full_step(inputs)
    copies = cache_share(inputs, inputs.accelerators) * inputs.accelerators
    most = largest_batch(inputs)
    return Outputs(
        tokens_per_s=1 / full.total_s,
        total_tokens_per_s=inputs.batch / full.total_s,
        bound=full.bound,
        step_ms=full.total_s * 1e3,
        weights_ms=full.weights_s * 1e3,
        cache_ms=full.cache_s * 1e3,
        compute_ms=full.compute_s * 1e3,
        links_ms=full.links_s * 1e3,
        simple_tokens_per_s=1 / simple.total_s,
        simple_total_tokens_per_s=inputs.batch / simple.total_s,
        crossover_batch=crossover(inputs),
        full_crossover_batch=_full_crossover(inputs),
        weights_gb=weight_bytes(inputs) / GIGA,
        cache_gb=inputs.batch * inputs.context * cache_bytes_per_token(inputs) * copies / GIGA,
        fits=inputs.batch <= most,
        largest_batch=most,
        table=tuple(_row(inputs, bits, batch) for bits in _TABLE_BITS for batch in _TABLE_BATCHES),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    batch, speed = Axis("Batch"), Axis("Output, in all", "tok/s", "higher")
    batches = [2**power for power in range(13)]
    full = [full_step(replace(inputs, batch=b)) for b in batches]
    simple = [simple_step(replace(inputs, batch=b)) for b in batches]
    xs = tuple(float(b) for b in batches)

    def line(label: str, ys: list[float], *, dashed: bool = False) -> Line:
        return Line(label, xs, tuple(ys), dashed=dashed)

    return (
        Plot(
            "Throughput over batch",
            batch,
            speed,
            (
                line("all terms", [b / step.total_s for b, step in zip(batches, full, strict=True)]),
                line("simple", [b / step.total_s for b, step in zip(batches, simple, strict=True)], dashed=True),
            ),
            now=inputs.batch,
        ),
        Plot(
            "Where a step's time goes",
            batch,
            Axis("Time", "ms", "lower"),
            (
                line("weights", [step.weights_s * 1e3 for step in full]),
                line("cache", [step.cache_s * 1e3 for step in full]),
                line("arithmetic", [step.compute_s * 1e3 for step in full]),
                line("links", [step.links_s * 1e3 for step in full]),
                line("step", [step.total_s * 1e3 for step in full], dashed=True),
            ),
            now=inputs.batch,
        ),
        Plot(
            "Throughput against interactivity",
            Axis("Per sequence", "tok/s", "higher"),
            speed,
            (
                Line(
                    f"batch 1 to {batches[-1]}",
                    tuple(1 / step.total_s for step in full),
                    tuple(b / step.total_s for b, step in zip(batches, full, strict=True)),
                ),
            ),
            now=outputs.tokens_per_s,
        ),
    )


DECODE_LIMIT = Calculator(
    name="decode-limit",
    title="Decode limit",
    subject="Two phases",
    summary="How fast a model can decode on given hardware: memory, arithmetic, cache reads, links and launches, with "
    "the batch at which arithmetic takes over and whether it all fits.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "simple: t = max(t_mem, t_comp), t_mem = N·b / (W·G), t_comp = 2·A·B / (F·G·u)",
        "tokens/s per sequence 1/t, in all B/t; memory-bound while t_mem ≥ t_comp",
        "B_x = N·b·F·u / (2·A·W)",
        "all terms: t = max(t_mem + t_kv, t_comp + t_att) + t_links + t_launch",
        "t_kv = B·T·c·s / W, c = 2·L·h_kv·d·b_kv (MLA: L·d_c·b_kv), s = max(1/G, 1/h_kv) (MLA: 1)",
        "t_att = 4·L·h·d·T·B / (F·G·u)",
        "t_links = 2·L·(2·(G−1)/G · 2·B·d_h / W_l + latency)",
        "weights read with experts: s_0 + n_e·e·(1 − (1 − k/n_e)^B), N = s_0 + n_e·e, A = s_0 + k·e",
    ),
    symbols={
        "b, b_kv": "bytes per weight and per cached value",
        "c": "cache of one token",
        "s": "share per accelerator",
        "e": "parameters of one expert over all layers",
        "s_0": "parameters that every token uses",
    },
    source="Williams, Waterman, Patterson 2009, Roofline; Kaplan et al. 2020, section 2.1 (two operations per "
    "parameter and token); Pope et al. 2022, Efficiently Scaling Transformer Inference; Shoeybi et al. 2019, "
    "Megatron-LM (two all-reduces a layer); DeepSeek-AI 2024, DeepSeek-V2 (latent attention).",
    assumptions=(
        "Memory reads and arithmetic overlap fully; links and launches do not overlap with them.",
        "Tensor parallelism over all accelerators; a ring all-reduce of 16-bit activations.",
        "Peak bandwidth is reached: real kernels reach 60 to 90 % of it. Limits, not forecasts.",
        "The arithmetic runs at the given peak whatever the precision of the weights.",
        "Every sequence has the mean context. GB are 1e9 bytes.",
    ),
    plots=_plots,
)
