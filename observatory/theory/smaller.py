"""A smaller model: distilled or pruned, what it gains in size and speed and what it loses.

Loss over size: L = E + A/N^alpha + B/D^beta with the constants of Hoffmann et al. 2022, Training Compute-Optimal Large
Language Models, section 3.3. Distillation: Hinton, Vinyals, Dean 2015. Pruning with brief retraining: Muralidharan et
al. 2024, Compact Language Models via Pruning and Knowledge Distillation. 2:4: Mishra et al. 2021, Accelerating Sparse
Deep Neural Networks.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import exp

from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.common import GIGA, TERA
from observatory.theory.fields import choice, number, result

_IRREDUCIBLE, _SIZE_SCALE, _SIZE_POWER, _DATA_SCALE, _DATA_POWER = 1.69, 406.4, 0.34, 410.7, 0.28
_MASK_BITS = 1.0
_INDEX_BITS = 2.0


class Method(StrEnum):
    DISTILLED = "distilled"
    STRUCTURED = "structured"
    SPARSE_2_4 = "2-4-sparse"
    UNSTRUCTURED = "unstructured"


@dataclass(frozen=True)
class Inputs:
    method: Method = choice(
        Method.DISTILLED,
        "Method",
        "distilled: a student of its own; structured: heads, layers or channels removed; 2-4-sparse: two of four "
        "weights removed; unstructured: single weights removed.",
    )
    parameters_b: float = number(8, "10⁹", "Parameters of the large model", "", low=0.001, high=10_000, symbol="N")
    kept_share: float = number(
        0.5, "", "Kept share", "Of the parameters. 2-4-sparse always keeps half.", low=0.01, high=1, symbol="s"
    )
    recovered_share: float = number(
        0.5,
        "",
        "Recovered by teaching",
        "Part of the loss that distillation or retraining wins back, as measured.",
        low=0,
        high=1,
        symbol="r",
    )
    training_tokens_b: float = number(15_000, "10⁹ tok", "Training tokens", "", low=0.1, high=1e6, symbol="D")
    weight_bits: float = number(16, "bit", "Weight precision", "", low=1, high=64)
    batch: int = number(1, "", "Batch", "Sequences decoded together.", low=1, high=4096, symbol="B")
    bandwidth_gb_s: float = number(3350, "GB/s", "Memory bandwidth", "", low=0.1, high=1e6, symbol="W")
    peak_tflops: float = number(990, "TFLOPS", "Dense peak", "", low=0.001, high=1e6, symbol="F")


@dataclass(frozen=True)
class Outputs:
    kept_b: float = result("10⁹", "Parameters kept")
    weights_gb: float = result("GB", "Weights", "Masks and indices included.", better="lower")
    large_weights_gb: float = result("GB", "Weights of the large model")
    size_ratio: float = result("%", "Size", "Of the large model.", decimals=0, better="lower")
    speedup: float = result("×", "Decode speedup", "At this batch, by the roofline.", decimals=2, better="higher")
    large_loss: float = result("nat/tok", "Loss of the large model", "By the scaling law.", decimals=3)
    untaught_loss: float = result(
        "nat/tok", "Loss of as small a model", "Trained alone on the same tokens.", decimals=3
    )
    loss: float = result("nat/tok", "Loss after teaching", decimals=3, better="lower")
    perplexity_ratio: float = result("×", "Perplexity", "Against the large model.", decimals=3, better="lower")


def loss(parameters: float, tokens: float) -> float:
    """Expected loss in nats per token of a model trained alone."""
    return float(_IRREDUCIBLE + _SIZE_SCALE / parameters**_SIZE_POWER + _DATA_SCALE / tokens**_DATA_POWER)


def _stored_bits(inputs: Inputs, kept: float) -> float:
    """Bits per weight of the large model that are stored, masks and indices included."""
    extra = {Method.SPARSE_2_4: kept * _INDEX_BITS, Method.UNSTRUCTURED: _MASK_BITS}
    return kept * inputs.weight_bits + extra.get(inputs.method, 0.0)


def _step_s(inputs: Inputs, bits: float, worked: float) -> float:
    """A decode step that reads ``bits`` per weight of the large model and computes with ``worked`` of them."""
    count = inputs.parameters_b * GIGA
    memory = count * bits / 8 / (inputs.bandwidth_gb_s * GIGA)
    return max(memory, 2 * count * worked * inputs.batch / (inputs.peak_tflops * TERA))


def compute(inputs: Inputs) -> Outputs:
    """Size, speed and loss of the smaller model."""
    kept = 0.5 if inputs.method is Method.SPARSE_2_4 else inputs.kept_share
    worked = 1.0 if inputs.method is Method.UNSTRUCTURED else kept
    bits = _stored_bits(inputs, kept)
    count, tokens = inputs.parameters_b * GIGA, inputs.training_tokens_b * GIGA
    large, alone = loss(count, tokens), loss(count * kept, tokens)
    taught = alone - inputs.recovered_share * (alone - large)
    return Outputs(
        inputs.parameters_b * kept,
        inputs.parameters_b * bits / 8,
        inputs.parameters_b * inputs.weight_bits / 8,
        100 * bits / inputs.weight_bits,
        _step_s(inputs, inputs.weight_bits, 1.0) / _step_s(inputs, bits, worked),
        large,
        alone,
        taught,
        exp(taught - large),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    taught = SMALLER.line(inputs, "kept_share", "loss", "taught")
    alone = SMALLER.line(inputs, "kept_share", "untaught_loss", "trained alone")
    speed = SMALLER.line(inputs, "kept_share", "speedup")
    found = zip(speed.y, taught.y, strict=True)
    pairs = sorted((gain, lost) for gain, lost in found if gain is not None and lost is not None)
    trade = Line("kept share from 1 to 0.01", tuple(gain for gain, _ in pairs), tuple(lost for _, lost in pairs))
    kept, worse = Axis("Kept share"), Axis("Loss", "nat/tok", "lower", from_zero=False)
    return (
        Plot("Loss over kept share", kept, worse, (taught, alone), now=inputs.kept_share),
        Plot("Loss against speed", Axis("Decode speedup", "×", "higher"), worse, (trade,), now=outputs.speedup),
    )


SMALLER = Calculator(
    name="smaller-model",
    title="Distillation and pruning",
    subject="Models",
    summary="What a smaller model gains in memory and decode speed, and what it is expected to lose, from a scaling "
    "law and a stated recovery by teaching.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "loss(N) = 1.69 + 406.4 / N^(0.34) + 410.7 / D^(0.28)",
        "loss taught = loss(s·N) − r·(loss(s·N) − loss(N))",
        "perplexity ratio = exp(loss taught − loss(N))",
        "speedup = t(N) / t(smaller), t = max(stored bytes / W, 2·parameters·B / F)",
        "stored bits per weight: s·w; 2-4-sparse 0.5·(w + 2); unstructured s·w + 1",
    ),
    symbols={"t": "time of a step", "w": "bits per weight"},
    source="Hoffmann et al. 2022, Training Compute-Optimal Large Language Models, section 3.3; Hinton, Vinyals, Dean "
    "2015, Distilling the Knowledge in a Neural Network; Muralidharan et al. 2024; Mishra et al. 2021.",
    assumptions=(
        "The loss is that of the law's own data and tokenizer: read its differences, not its level, and measure "
        "quality on your tasks.",
        "The recovered share is an input, not a forecast.",
        "Unstructured sparsity saves memory and reads only with kernels that unpack it; it saves no arithmetic.",
        "2-4 sparsity halves the arithmetic on hardware that has it.",
    ),
    plots=_plots,
)
