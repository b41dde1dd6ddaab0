"""Spreading one model over several accelerators: tensor, pipeline and expert parallelism.

Tensor: Shoeybi et al. 2019, Megatron-LM. Pipeline: Huang et al. 2019, GPipe (bubble (p-1)/(m+p-1)). Expert: Lepikhin et
al. 2020, GShard (two all-to-alls a layer). Collectives: Patarasuk and Yuan 2009.
"""

from dataclasses import dataclass, replace
from math import ceil

from observatory.theory.calculator import Axis, Calculator, Line, Plot, refuse
from observatory.theory.common import (
    ACTIVATION_BYTES,
    GIGA,
    TERA,
    Hardware,
    Weights,
    active,
    all_reduce_s,
    weight_bytes,
)
from observatory.theory.fields import number, result

_WIDTHS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class Spread:
    batch: int = number(32, "", "Batch", "Sequences decoded together.", low=1, high=65_536, symbol="B", group="Load")
    replicas: int = number(
        1, "", "Replicas", "Whole copies that share the batch.", low=1, high=4096, symbol="R", group="Load"
    )
    microbatches: int = number(
        8, "", "Microbatches", "Into which a pipeline's batch is cut.", low=1, high=4096, symbol="m", group="Load"
    )
    layers: int = number(80, "", "Layers", "", low=1, high=1000, symbol="L", group="Model")
    hidden: int = number(8192, "", "Hidden width", "", low=1, high=1_000_000, symbol="d_h", group="Model")
    link_gb_s: float = number(
        450,
        "GB/s",
        "Link",
        "Of one accelerator to the others, one direction: 450 for NVLink 4, 25 for 200 Gb/s Ethernet.",
        low=0.1,
        high=1e6,
        symbol="W_l",
        group="Hardware",
    )
    link_latency_us: float = number(
        5, "µs", "Link latency", "Of one collective.", low=0, high=100_000, symbol="l", group="Hardware"
    )


@dataclass(frozen=True)
class Inputs(Spread, Hardware, Weights):
    """Load, model and hardware."""


@dataclass(frozen=True)
class Row:
    accelerators: int = result("", "Accelerators")
    tensor_step_ms: float = result("ms", "Tensor, step")
    tensor_speedup: float = result("×", "Tensor, speedup", decimals=2)
    tensor_efficiency: float = result("%", "Tensor, efficiency", decimals=0)
    pipeline_efficiency: float = result("%", "Pipeline, efficiency", decimals=0)
    expert_ms: float = result("ms", "Expert, all-to-alls")


@dataclass(frozen=True)
class Outputs:
    tokens_per_s: float = result("tok/s", "Tensor: throughput", "Of all replicas.", decimals=0, better="higher")
    tensor_step_ms: float = result("ms", "Tensor: step", "One token for each sequence.", better="lower")
    tensor_speedup: float = result("×", "Tensor: speedup", "Against one accelerator.", decimals=2, better="higher")
    tensor_efficiency: float = result("%", "Tensor: efficiency", "Speedup / accelerators.", decimals=0, better="higher")
    all_reduce_mb: float = result("MB", "Tensor: sent per accelerator and step", "Two all-reduces a layer.")
    all_reduce_share: float = result("%", "Tensor: time in all-reduces", decimals=0, better="lower")
    pipeline_bubble: float = result("%", "Pipeline: bubble", "Time that stages wait.", decimals=0, better="lower")
    pipeline_speedup: float = result(
        "×",
        "Pipeline: throughput",
        "Against one accelerator; the time of one token does not fall.",
        decimals=2,
        better="higher",
    )
    pipeline_sent_mb: float = result("MB", "Pipeline: sent between stages per step")
    expert_sent_mb: float = result("MB", "Expert: sent per accelerator and step", "Two all-to-alls a layer.")
    expert_ms: float = result("ms", "Expert: time in all-to-alls", better="lower")
    weights_gb_each: float = result("GB", "Weights on each accelerator", "The same in all three.")
    table: tuple[Row, ...] = result(label="By number of accelerators")


@dataclass(frozen=True)
class Tensor:
    """Seconds of a decode step under tensor parallelism."""

    work_s: float
    links_s: float

    @property
    def total_s(self) -> float:
        return self.work_s + self.links_s


def tensor(inputs: Inputs) -> Tensor:
    """The work falls as 1/G; the all-reduces do not."""
    memory = weight_bytes(inputs) / (inputs.bandwidth_gb_s * GIGA)
    arithmetic = 2 * active(inputs) * inputs.batch / (inputs.peak_tflops * TERA * inputs.utilisation)
    message = inputs.batch * inputs.hidden * ACTIVATION_BYTES
    each = all_reduce_s(message, inputs.accelerators, inputs.link_gb_s, inputs.link_latency_us)
    return Tensor(max(memory, arithmetic) / inputs.accelerators, 2 * inputs.layers * each)


def pipeline_efficiency(stages: int, microbatches: int) -> float:
    """m / (m + p - 1): what the bubble leaves."""
    return microbatches / (microbatches + stages - 1)


def expert_bytes(inputs: Inputs) -> float:
    """Sent by each accelerator per step: its share of tokens to k experts each and back, but for those at home."""
    away = (inputs.accelerators - 1) / inputs.accelerators
    tokens = inputs.batch / inputs.accelerators
    return 2 * inputs.layers * tokens * inputs.experts_active * inputs.hidden * ACTIVATION_BYTES * away


def _expert_s(inputs: Inputs) -> float:
    latency = 2 * inputs.layers * inputs.link_latency_us * 1e-6 if inputs.accelerators > 1 else 0.0
    return expert_bytes(inputs) / (inputs.link_gb_s * GIGA) + latency


def _speedup(inputs: Inputs) -> float:
    return tensor(replace(inputs, accelerators=1)).total_s / tensor(inputs).total_s


def _row(inputs: Inputs) -> Row:
    speedup = _speedup(inputs)
    return Row(
        inputs.accelerators,
        tensor(inputs).total_s * 1e3,
        speedup,
        100 * speedup / inputs.accelerators,
        100 * pipeline_efficiency(inputs.accelerators, inputs.microbatches),
        _expert_s(inputs) * 1e3,
    )


def one_replica(inputs: Inputs) -> Inputs:
    """The fullest of the replicas, by itself."""
    return replace(inputs, batch=ceil(inputs.batch / inputs.replicas), replicas=1)


def compute(whole: Inputs) -> Outputs:
    """Speedup, efficiency and bytes of each way."""
    inputs = one_replica(whole)
    if inputs.microbatches > inputs.batch:
        raise refuse("microbatches", "There are more microbatches than sequences.", f"Give at most {inputs.batch}.")
    width, step = inputs.accelerators, tensor(inputs)
    speedup = _speedup(inputs)
    message = inputs.batch * inputs.hidden * ACTIVATION_BYTES
    efficiency = pipeline_efficiency(width, inputs.microbatches)
    return Outputs(
        whole.batch / step.total_s,
        step.total_s * 1e3,
        speedup,
        100 * speedup / width,
        2 * inputs.layers * 2 * (width - 1) / width * message / 1e6,
        100 * step.links_s / step.total_s,
        100 * (1 - efficiency),
        width * efficiency,
        (width - 1) * message / 1e6,
        expert_bytes(inputs) / 1e6,
        _expert_s(inputs) * 1e3,
        weight_bytes(inputs) / width / GIGA,
        tuple(_row(replace(inputs, accelerators=count)) for count in _WIDTHS),
    )


def _plots(whole: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    inputs, rows = one_replica(whole), outputs.table
    widths = tuple(float(row.accelerators) for row in rows)
    count = Axis("Accelerators")
    ideal = Line("ideal", widths, widths, dashed=True)
    tensors = Line("tensor", widths, tuple(row.tensor_speedup for row in rows))
    pipes = Line(
        "pipeline (throughput)",
        widths,
        tuple(w * row.pipeline_efficiency / 100 for w, row in zip(widths, rows, strict=True)),
    )
    work = Line(
        "work", widths, tuple(tensor(replace(inputs, accelerators=row.accelerators)).work_s * 1e3 for row in rows)
    )
    links = Line(
        "all-reduces",
        widths,
        tuple(tensor(replace(inputs, accelerators=row.accelerators)).links_s * 1e3 for row in rows),
    )
    return (
        Plot(
            "Speedup over accelerators",
            count,
            Axis("Speedup", "×", "higher"),
            (tensors, pipes, ideal),
            now=inputs.accelerators,
        ),
        Plot(
            "Tensor parallel: where a step's time goes",
            count,
            Axis("Time", "ms", "lower"),
            (work, links),
            now=inputs.accelerators,
        ),
    )


PARALLEL = Calculator(
    name="parallel",
    title="Tensor, pipeline and expert parallelism",
    subject="Deployment",
    summary="What spreading a model over accelerators gains in a decode step, and what links, bubbles and "
    "all-to-alls take back.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "tensor: t = max(N·b/W, 2·A·B/(F·u)) / G + 2·L·(2·(G−1)/G · 2·B·d_h / W_l + l)",
        "throughput = B / t, where R replicas hold B/R sequences each; the rest is of one replica",
        "pipeline: efficiency = m / (m + G − 1), throughput G·efficiency",
        "expert: sent = 2·L·(B/G)·k·2·d_h·(G−1)/G",
        "efficiency = speedup / G",
    ),
    symbols={"b": "bytes per weight"},
    source="Shoeybi et al. 2019, Megatron-LM; Huang et al. 2019, GPipe; Lepikhin et al. 2020, GShard; Patarasuk and "
    "Yuan 2009 (ring all-reduce).",
    assumptions=(
        "The model fits on one accelerator for the comparison, or it would have to.",
        "Links do not overlap with work; activations have 16 bits; cache reads are left out.",
        "Pipeline: equal stages, free transfers; a microbatch takes its share of the batch's time.",
        "Expert: tokens go evenly to all accelerators; moe has the imbalance.",
    ),
    plots=_plots,
)
