"""Inputs that several calculators share, and what follows from them alone.

Units: parameters in 1e9, GB = 1e9 bytes, TFLOPS = 1e12 floating-point operations a second, a multiply-add is two.
"""

from dataclasses import dataclass

from observatory.theory.calculator import refuse
from observatory.theory.fields import number

GIGA = 1e9
TERA = 1e12
ACTIVATION_BYTES = 2


@dataclass(frozen=True)
class Weights:
    """The model's parameters and how they are stored."""

    parameters_b: float = number(
        70, "10⁹", "Parameters", "All of them: they sit in memory.", low=0.001, high=10_000, symbol="N", group="Model"
    )
    active_b: float | None = number(
        None,
        "10⁹",
        "Active parameters",
        "Those that one token uses, in a mixture of experts. Empty: all.",
        low=0.001,
        high=10_000,
        symbol="A",
        group="Model",
    )
    experts: int = number(
        1, "", "Experts", "Per layer; 1 in a dense model.", low=1, high=4096, symbol="n_e", group="Model"
    )
    experts_active: int = number(
        1, "", "Experts per token", "That each token is sent to.", low=1, high=4096, symbol="k", group="Model"
    )
    weight_bits: float = number(
        16,
        "bit",
        "Weight precision",
        "Bits per weight, scales included: 16, 8, 4, or 4.5 for Q4_0.",
        low=1,
        high=64,
        group="Model",
    )


@dataclass(frozen=True)
class Cache:
    """What the keys and values of one token take."""

    layers: int = number(80, "", "Layers", "", low=1, high=1000, symbol="L", group="Model")
    kv_heads: int = number(
        8,
        "",
        "Key and value heads",
        "As many as query heads: MHA; fewer: GQA; one: MQA.",
        low=1,
        high=1024,
        symbol="h_kv",
        group="Model",
    )
    head_dim: int = number(128, "", "Width of a head", "", low=1, high=4096, symbol="d", group="Model")
    latent_dim: int = number(
        0,
        "",
        "Latent width (MLA)",
        "Values per token and layer of a compressed cache, 576 in DeepSeek V3; 0 without.",
        low=0,
        high=65_536,
        symbol="d_c",
        group="Model",
    )
    kv_bits: float = number(16, "bit", "Cache precision", "Bits per cached value.", low=1, high=64, group="Model")


@dataclass(frozen=True)
class Hardware:
    """The accelerators that hold one copy of the model."""

    accelerators: int = number(
        4, "", "Accelerators", "That hold one copy of the model.", low=1, high=4096, symbol="G", group="Hardware"
    )
    bandwidth_gb_s: float = number(
        3350, "GB/s", "Memory bandwidth", "Of one.", low=0.1, high=1e6, symbol="W", group="Hardware"
    )
    peak_tflops: float = number(
        990,
        "TFLOPS",
        "Dense peak",
        "Of one, at the precision of the arithmetic.",
        low=0.001,
        high=1e6,
        symbol="F",
        group="Hardware",
    )
    utilisation: float = number(
        0.5, "", "Utilisation of the peak", "What kernels reach.", low=0.01, high=1, symbol="u", group="Hardware"
    )


@dataclass(frozen=True)
class Memory:
    """How much memory there is for weights and cache."""

    memory_gb: float = number(
        80, "GB", "Memory", "Of one accelerator.", low=0.1, high=100_000, symbol="M", group="Hardware"
    )
    usable_share: float = number(
        0.9, "", "Usable share", "For weights and cache; the rest is work space.", low=0.05, high=1, group="Hardware"
    )


def active(weights: Weights) -> float:
    """Parameters that one token uses. Raises Refused where they and the experts contradict each other."""
    if weights.experts_active > weights.experts:
        raise refuse("experts_active", "A token cannot use more experts than there are.", f"At most {weights.experts}.")
    if weights.active_b is None:
        return weights.parameters_b * GIGA
    if weights.active_b > weights.parameters_b:
        raise refuse("active_b", "More are active than there are.", f"Give at most {weights.parameters_b:g}.")
    if weights.active_b < weights.parameters_b and weights.experts == weights.experts_active:
        raise refuse("experts", "Not all parameters are active, yet all experts are.", "Give the number of experts.")
    return weights.active_b * GIGA


def touched(weights: Weights, batch: float) -> float:
    """Parameters that a step reads: all of a dense model; else those of the experts that ``batch`` tokens choose.

    Tokens choose evenly, so an expert is left out with chance (1 - k/n)^batch. What all experts share follows from the
    total and the active parameters: N = s + n*e, A = s + k*e.
    """
    total, used = weights.parameters_b * GIGA, active(weights)
    if used == total or weights.experts == weights.experts_active:
        return total
    expert = (total - used) / (weights.experts - weights.experts_active)
    shared = used - weights.experts_active * expert
    if shared < 0:
        raise refuse(
            "active_b",
            "So few active parameters do not fit that many experts per token.",
            f"Give at least {total * weights.experts_active / weights.experts / GIGA:.3g}.",
        )
    chosen = 1 - pow(1 - weights.experts_active / weights.experts, batch)
    return float(shared + weights.experts * expert * chosen)


def weight_bytes(weights: Weights) -> float:
    """Memory of all parameters."""
    return weights.parameters_b * GIGA * weights.weight_bits / 8


def cache_bytes_per_token(cache: Cache) -> float:
    """Keys and values of one token over all layers; with multi-head latent attention one latent in their place."""
    values = cache.latent_dim or 2 * cache.kv_heads * cache.head_dim
    return cache.layers * values * cache.kv_bits / 8


def cache_share(cache: Cache, accelerators: int) -> float:
    """The part of the cache that each accelerator holds and reads: heads are divided, but one is never split, and a
    latent is held by all.
    """
    return 1.0 if cache.latent_dim else max(1 / accelerators, 1 / cache.kv_heads)


def all_reduce_s(bytes_each: float, accelerators: int, link_gb_s: float, latency_us: float) -> float:
    """Time of one ring all-reduce: each sends 2(G-1)/G of the message. Source: Patarasuk and Yuan 2009, Bandwidth
    optimal all-reduce algorithms for clusters of workstations.
    """
    if accelerators == 1:
        return 0.0
    return 2 * (accelerators - 1) / accelerators * bytes_each / (link_gb_s * GIGA) + latency_us * 1e-6
