"""Energy of a request by a published model, for machines that nobody can measure. Every figure is modelled.

EcoLogits (Rincé and Banse; constants of ecologits/impacts/llm.py, fitted to ML.ENERGY data on H100 boards): energy and
latency of a token grow with the active parameters; a batch of 64 shares the server.
"""

from dataclasses import dataclass
from math import ceil, exp, log2

from observatory.theory.accounts.environment import embodied_g

ENERGY_ALPHA, ENERGY_BETA, ENERGY_GAMMA = 1.1665273170451914e-06, -0.011205921025579175, 4.052928146734005e-05
LATENCY_ALPHA, LATENCY_BETA, LATENCY_GAMMA = 6.785088094353663e-04, 3.119310311688259e-04, 1.9473717579473387e-02
GPU_MEMORY_GB = 80
SERVER_GPUS, SERVER_W = 8, 1200.0
GPU_MADE_KG, SERVER_MADE_KG = 164.0, 5700.0
LIFETIME_YEARS = 3.0
#: Weights take so much more memory than their bits: caches and activations.
MEMORY_FACTOR = 1.2


@dataclass(frozen=True)
class Modelled:
    """Watt-hours, seconds and grams of one request. ``gpu_wh`` is of one GPU; ``request_wh`` of all, with overhead."""

    gpus: int
    gpu_wh: float
    latency_s: float
    server_wh: float
    request_wh: float
    embodied_g: float


def ecologits(
    active_b: float,
    total_b: float,
    output_tokens: int,
    *,
    pue: float,
    latency_cap_s: float | None = None,
    weight_bits: int = 16,
    batch: int = 64,
) -> Modelled:
    """The EcoLogits estimate of one request; parameters in billions."""
    weights_gb = MEMORY_FACTOR * total_b * weight_bits / 8
    gpus = 2 ** ceil(log2(max(1, ceil(weights_gb / GPU_MEMORY_GB))))
    gpu_wh = output_tokens * (ENERGY_ALPHA * exp(ENERGY_BETA * batch) * active_b + ENERGY_GAMMA)
    latency_s = output_tokens * (LATENCY_ALPHA * active_b + LATENCY_BETA * batch + LATENCY_GAMMA)
    if latency_cap_s is not None:
        latency_s = min(latency_s, latency_cap_s)
    server_wh = latency_s / 3600 * SERVER_W * gpus / SERVER_GPUS / batch
    made_kg = gpus / SERVER_GPUS * SERVER_MADE_KG + gpus * GPU_MADE_KG
    return Modelled(
        gpus,
        gpu_wh,
        latency_s,
        server_wh,
        pue * (server_wh + gpus * gpu_wh),
        embodied_g(made_kg, LIFETIME_YEARS, latency_s, batch),
    )
