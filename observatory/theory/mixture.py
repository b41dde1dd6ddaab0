"""Mixture of experts: memory of all experts against arithmetic of a few, and the load that routing puts on each.

Shazeer et al. 2017, Outrageously Large Neural Networks; Lepikhin et al. 2020, GShard (expert parallelism); Fedus et al.
2021, Switch Transformer (load balance). The imbalance is simulated: each token draws its experts without replacement,
with chances that fall as rank^-z (Gumbel top-k, Kool et al. 2019).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from observatory.theory.calculator import Axis, Calculator, Line, Plot, refuse
from observatory.theory.common import GIGA, Weights, active, touched, weight_bytes
from observatory.theory.fields import number, result

_MOST_DRAWS = 2_000_000
_BATCHES = (1, 4, 16, 64, 256, 1024, 4096)


@dataclass(frozen=True)
class Experts:
    parameters_b: float = number(
        671, "10⁹", "Parameters", "All of them: they sit in memory.", low=0.001, high=10_000, symbol="N", group="Model"
    )
    active_b: float | None = number(
        37,
        "10⁹",
        "Active parameters",
        "Those that one token uses. Empty: all.",
        low=0.001,
        high=10_000,
        symbol="A",
        group="Model",
    )
    experts: int = number(
        256, "", "Experts", "Per layer, those that are routed to.", low=1, high=1024, symbol="n", group="Model"
    )
    experts_active: int = number(8, "", "Experts per token", "", low=1, high=1024, symbol="k", group="Model")
    weight_bits: float = number(8, "bit", "Weight precision", "Bits per weight.", low=1, high=64, group="Model")


@dataclass(frozen=True)
class Inputs(Experts, Weights):
    tokens: int = number(
        256, "tok", "Tokens of a step", "The batch of a decode step.", low=1, high=16_384, symbol="B", group="Load"
    )
    skew: float = number(
        0.5,
        "",
        "Skew of routing",
        "0: every expert equally likely; 1: as words are in text.",
        low=0,
        high=3,
        symbol="z",
        group="Load",
    )
    accelerators: int = number(
        32, "", "Accelerators", "Over which the experts are spread.", low=1, high=4096, symbol="G", group="Hardware"
    )
    bandwidth_gb_s: float = number(
        3350, "GB/s", "Memory bandwidth", "Of one.", low=0.1, high=1e6, symbol="W", group="Hardware"
    )
    seed: int = number(1, "", "Seed", "Of the simulation.", low=0, high=1_000_000, group="Load")


@dataclass(frozen=True)
class Outputs:
    weights_gb: float = result("GB", "Weights in memory", "All experts.", better="lower")
    gflop_per_token: float = result(
        "GFLOP", "Arithmetic per token", "2·A, that of the active parameters.", better="lower"
    )
    memory_against_arithmetic: float = result("×", "Memory against arithmetic", "N/A: 1 in a dense model.")
    experts_touched: float = result("", "Experts that a step touches", "Of each layer, when routing is even.")
    read_gb: float = result("GB", "Weights read per step", "By all accelerators.")
    read_ms: float = result("ms", "Time to read them", "Spread over all accelerators.", better="lower")
    busiest_expert: float = result("×", "Busiest expert", "Its tokens against the mean.", decimals=2, better="lower")
    busiest_accelerator: float = result(
        "×", "Busiest accelerator", "Its tokens against the mean: all wait for it.", decimals=2, better="lower"
    )
    efficiency: float = result(
        "%", "Efficiency of the spread", "Mean load against the busiest.", decimals=0, better="higher"
    )
    idle_experts: int = result("", "Experts without a token")


def loads(experts: int, chosen: int, tokens: int, skew: float, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Tokens per expert of one simulated layer; they add up to tokens * chosen. Experts stand in random order."""
    return _loads(experts, chosen, tokens, skew, seed).copy()


@lru_cache(maxsize=64)
def _loads(
    experts: int, chosen: int, tokens: int, skew: float, seed: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    rng = np.random.default_rng(seed)
    weights = -skew * np.log(np.arange(1, experts + 1, dtype=np.float64))
    rng.shuffle(weights)
    counts = np.zeros(experts, dtype=np.int64)
    at_once = max(1, _MOST_DRAWS // experts)
    for start in range(0, tokens, at_once):
        keys = weights + rng.gumbel(size=(min(at_once, tokens - start), experts))
        picked = np.argpartition(keys, experts - chosen, axis=1)[:, experts - chosen :]
        counts += np.bincount(picked.ravel(), minlength=experts)
    return counts


def per_accelerator(
    counts: np.ndarray[tuple[int], np.dtype[np.int64]], accelerators: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Tokens per accelerator when experts are dealt out in order."""
    owners = np.arange(counts.size) * accelerators // counts.size
    return np.bincount(owners, weights=counts, minlength=accelerators).astype(np.int64)


def compute(inputs: Inputs) -> Outputs:
    """Memory, arithmetic, reads, and the simulated imbalance."""
    used = active(inputs)
    if inputs.accelerators > inputs.experts:
        raise refuse("accelerators", "Some would hold no expert.", f"Give at most {inputs.experts}.")
    counts = loads(inputs.experts, inputs.experts_active, inputs.tokens, inputs.skew, inputs.seed)
    spread = per_accelerator(counts, inputs.accelerators)
    read = touched(inputs, inputs.tokens) * inputs.weight_bits / 8
    chance = 1 - pow(1 - inputs.experts_active / inputs.experts, inputs.tokens)
    busiest = float(spread.max() / spread.mean())
    return Outputs(
        weight_bytes(inputs) / GIGA,
        2 * used / GIGA,
        inputs.parameters_b * GIGA / used,
        inputs.experts * chance,
        read / GIGA,
        read / (inputs.bandwidth_gb_s * GIGA * inputs.accelerators) * 1e3,
        float(counts.max() / counts.mean()),
        busiest,
        100 / busiest,
        int((counts == 0).sum()),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    counts = loads(inputs.experts, inputs.experts_active, inputs.tokens, inputs.skew, inputs.seed)
    spread = per_accelerator(counts, inputs.accelerators)
    bars = Line("simulated", tuple(str(index + 1) for index in range(spread.size)), tuple(float(n) for n in spread))
    busiest = []
    for tokens in _BATCHES:
        found = loads(inputs.experts, inputs.experts_active, tokens, inputs.skew, inputs.seed)
        shared = per_accelerator(found, inputs.accelerators)
        busiest.append(float(shared.max() / shared.mean()))
    read = [touched(inputs, tokens) * inputs.weight_bits / 8 / GIGA for tokens in _BATCHES]
    batches = tuple(float(tokens) for tokens in _BATCHES)
    step = Axis("Tokens of a step", "tok")
    return (
        Plot("Tokens per accelerator, one layer", Axis("Accelerator"), Axis("Tokens", "tok"), (bars,), bars=True),
        Plot(
            "Imbalance over batch",
            step,
            Axis("Busiest against mean", "×", "lower"),
            (Line("busiest accelerator", batches, tuple(busiest)),),
            now=inputs.tokens,
        ),
        Plot(
            "Weights read over batch",
            step,
            Axis("Weights read per step", "GB", "lower"),
            (
                Line("touched experts", batches, tuple(read)),
                Line("all weights", batches, (outputs.weights_gb,) * len(batches), dashed=True),
            ),
            now=inputs.tokens,
        ),
    )


MOE = Calculator(
    name="moe",
    title="Mixture of experts",
    subject="Models",
    summary="All experts sit in memory, a few work on each token: memory against arithmetic, what a step reads as "
    "the batch grows, and how uneven the load of the experts is.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "memory = N·b, arithmetic = 2·A per token",
        "experts touched = n·(1 − (1 − k/n)^B)",
        "read = s + n·e·(1 − (1 − k/n)^B), N = s + n·e, A = s + k·e",
        "efficiency = mean load / busiest load, k·B draws without replacement, chance ∝ rank^(−z)",
    ),
    symbols={"b": "bytes per weight", "e": "parameters of one expert", "s": "parameters that every token uses"},
    source="Shazeer et al. 2017, Outrageously Large Neural Networks; Lepikhin et al. 2020, GShard; Fedus et al. 2021, "
    "Switch Transformer; draws: Kool et al. 2019, Stochastic Beams (Gumbel top-k).",
    assumptions=(
        "Experts are dealt out in order, none is held twice: placing or copying busy experts lowers the imbalance.",
        "Tokens choose independently; in real text neighbours choose alike.",
        "Weights read are counted for even routing: skew touches fewer experts.",
    ),
    plots=_plots,
)
