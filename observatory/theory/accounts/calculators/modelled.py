"""Energy of a request by a published model."""

from dataclasses import dataclass

from observatory.theory.accounts import modelled
from observatory.theory.calculator import Calculator
from observatory.theory.fields import number, result


@dataclass(frozen=True)
class Inputs:
    active_b: float = number(7.3, "B", "Active parameters", "Of one token.", low=0.001, high=100_000)
    total_b: float = number(7.3, "B", "All parameters", "That must be held in memory.", low=0.001, high=100_000)
    output_tokens: int = number(200, "tok", "Output tokens", "", low=1, high=10_000_000)
    latency_cap_s: float | None = number(None, "s", "Measured latency", "Caps the modelled one.", low=0, high=1e6)
    pue: float = number(1.2, "", "PUE", "Facility energy over IT energy.", low=1, high=5)
    weight_bits: int = number(16, "bit", "Bits per weight", "", low=1, high=64)
    batch: int = number(64, "", "Batch", "Requests served together.", low=1, high=4096)


@dataclass(frozen=True)
class Outputs:
    request_wh: float = result("Wh", "Energy of the request", "Facility energy, modelled.", decimals=6, better="lower")
    gpus: int = result("", "Accelerators")
    gpu_wh: float = result("Wh", "One accelerator", decimals=6)
    server_wh: float = result("Wh", "Server share", decimals=6)
    latency_s: float = result("s", "Latency", decimals=4)
    embodied_g: float = result("g CO₂e", "Embodied carbon", decimals=6)


def compute(inputs: Inputs) -> Outputs:
    found = modelled.ecologits(
        inputs.active_b,
        inputs.total_b,
        inputs.output_tokens,
        pue=inputs.pue,
        latency_cap_s=inputs.latency_cap_s,
        weight_bits=inputs.weight_bits,
        batch=inputs.batch,
    )
    return Outputs(found.request_wh, found.gpus, found.gpu_wh, found.server_wh, found.latency_s, found.embodied_g)


ECOLOGITS = Calculator(
    name="ecologits",
    title="Energy of a request, modelled",
    subject="Energy",
    summary="The EcoLogits estimate for servers that nobody can measure: energy and embodied carbon of one request.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "gpu = n × (α·e^(β·B)·active + γ)",
        "server = latency / 3600 × 1200 W × gpus / 8 / B",
        "request = PUE × (server + gpus × gpu)",
    ),
    symbols={"n": "output tokens", "B": "batch", "α": "1.1665e-6", "β": "−1.1206e-2", "γ": "4.0529e-5"},
    source="EcoLogits (Rincé and Banse), ecologits/impacts/llm.py, fitted to the ML.ENERGY leaderboard on H100.",
    assumptions=("Modelled, not measured: prompts are left out, and one fit stands for all engines.",),
)
