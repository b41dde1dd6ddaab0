"""The quantization lab: what rounding a matrix to few bits does to what it computes.

Error: ||Wq x - W x|| / ||W x||. The reference matrix has one output row twelve times as large as the rest, an outlier
that a scale for the whole tensor pays for. GPTQ and AWQ use calibration activations with outlier channels, as they are
found in language models (Dettmers et al. 2022, LLM.int8()).
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from observatory.theory import model_files
from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.calibrated import awq, gptq
from observatory.theory.fields import choice, number, result, text
from observatory.theory.formats import Format, Matrix, Scope, bits, quantized, stored_bits

_REFERENCE_SEED = 0
_MOST_ROWS = 256
_MOST_COLUMNS = 1024
_FACTORS = 16
#: GPTQ goes column by column: a part of the matrix keeps the page quick.
_METHOD_ROWS = 128
_METHOD_COLUMNS = 512


@dataclass(frozen=True)
class Inputs:
    file: str = text(
        "",
        "Model file",
        "GGUF or safetensors, by name. Empty: the reference matrix of 256 x 1024 with one large row.",
        longest=200,
        group="Matrix",
        suggestions=model_files.names,
    )
    tensor: str = text(
        "",
        "Tensor",
        "Empty: the first matrix. At most 256 rows and 1024 columns are used.",
        longest=200,
        group="Matrix",
    )
    form: Format = choice(Format.INT4, "Format", "For GPTQ and AWQ; the table has all.", group="Scheme")
    scope: Scope = choice(Scope.CHANNEL, "Weights that share a scale", "A channel is an output row.", group="Scheme")
    group: int = number(64, "", "Group", "Weights of a group.", low=8, high=1024, symbol="g", group="Scheme")
    samples: int = number(
        2048,
        "tok",
        "Calibration tokens",
        "Fewer than columns, and GPTQ fits what it saw and no more.",
        low=8,
        high=4096,
        group="Calibration",
    )
    outliers: float = number(
        1.0,
        "",
        "Outlier channels",
        "Spread of the activations' magnitudes over channels (sigma of a log-normal); 0: all alike.",
        low=0,
        high=2,
        symbol="σ",
        group="Calibration",
    )
    seed: int = number(1, "", "Seed", "Of the activations.", low=0, high=1_000_000, group="Calibration")


@dataclass(frozen=True)
class Row:
    scheme: str = result(label="Scheme")
    error: float = result("", "Error, rounding", decimals=4)
    memory: float = result("%", "Memory of 16-bit", decimals=0)
    memory_with_scales: float = result("%", "With scales", decimals=1)


@dataclass(frozen=True)
class Method:
    method: str = result(label="Method")
    calibration_error: float = result("", "Error on calibration data", decimals=4)
    held_out_error: float = result("", "On data held out", decimals=4)


@dataclass(frozen=True)
class Outputs:
    rounding_error: float = result("", "Rounding", "On held-out activations.", decimals=4, better="lower")
    gptq_error: float = result("", "GPTQ", "On held-out activations.", decimals=4, better="lower")
    awq_error: float = result("", "AWQ", "On held-out activations.", decimals=4, better="lower")
    memory_with_scales: float = result(
        "%", "Memory of 16-bit", "Scales of 16 bits included.", decimals=1, better="lower"
    )
    rows: int = result("", "Rows")
    columns: int = result("", "Columns")
    outlier_ratio: float = result("×", "Largest row against the median", "Of their largest weights.")
    table: tuple[Row, ...] = result(label="Every scheme by rounding", help="on one random input")
    methods: tuple[Method, ...] = result(
        label="Methods compared", help="at the chosen format and scope, on the first 128 rows and 512 columns"
    )


def reference() -> tuple[Matrix, Matrix]:
    """The reference matrix and its input, drawn in this order from one generator."""
    rng = np.random.default_rng(_REFERENCE_SEED)
    weights = rng.normal(0, 0.02, (256, 1024))
    weights[7] *= 12
    return weights, rng.normal(0, 1, 1024)


def error(weights: Matrix, rounded: Matrix, inputs: Matrix) -> float:
    """||Wq X - W X|| / ||W X||."""
    wanted = weights @ inputs
    return float(np.linalg.norm(rounded @ inputs - wanted) / np.linalg.norm(wanted))


def activations(columns: int, inputs: Inputs) -> tuple[Matrix, Matrix]:
    """Calibration and held-out activations: correlated channels, some of them much larger than others."""
    rng = np.random.default_rng(inputs.seed)
    magnitude = np.exp(rng.normal(0, inputs.outliers, (columns, 1)))
    mixing = rng.normal(0, 1, (columns, _FACTORS)) / np.sqrt(_FACTORS)

    def draw() -> Matrix:
        common = mixing @ rng.normal(0, 1, (_FACTORS, inputs.samples))
        found: Matrix = magnitude * (common + rng.normal(0, 1, (columns, inputs.samples)))
        return found

    return draw(), draw()


def _matrix(inputs: Inputs) -> tuple[Matrix, Matrix]:
    if not inputs.file:
        return reference()
    weights = model_files.matrix(inputs.file, inputs.tensor, _MOST_ROWS, _MOST_COLUMNS)
    return weights, np.random.default_rng(_REFERENCE_SEED).normal(0, 1, (weights.shape[1],))


def _table(weights: Matrix, probe: Matrix, group: int) -> tuple[Row, ...]:
    rows = []
    for form in Format:
        for scope in Scope:
            rounded = quantized(weights, form, scope, group)
            stored = stored_bits(form, scope, group, weights.shape[1], weights.shape[0])
            name = f"groups of {group}" if scope is Scope.GROUP else scope.value
            rows.append(Row(f"{form} {name}", error(weights, rounded, probe), 100 * bits(form) / 16, 100 * stored / 16))
    return tuple(rows)


def compute(inputs: Inputs) -> Outputs:
    """Errors of every scheme by rounding, and of GPTQ and AWQ at the chosen one."""
    return _computed(inputs, model_files.version(inputs.file))


@lru_cache(maxsize=32)
def _computed(inputs: Inputs, version: int) -> Outputs:
    weights, probe = _matrix(inputs)
    methods = _methods(weights[:_METHOD_ROWS, :_METHOD_COLUMNS], inputs)
    rows, columns = weights.shape
    largest = np.abs(weights).max(axis=1)
    stored = stored_bits(inputs.form, inputs.scope, inputs.group, columns, rows)
    return Outputs(
        rounding_error=methods[0].held_out_error,
        gptq_error=methods[1].held_out_error,
        awq_error=methods[2].held_out_error,
        memory_with_scales=100 * stored / 16,
        rows=rows,
        columns=columns,
        outlier_ratio=float(largest.max() / max(float(np.median(largest)), np.finfo(float).tiny)),
        table=_table(weights, probe, inputs.group),
        methods=methods,
    )


def _methods(weights: Matrix, inputs: Inputs) -> tuple[Method, ...]:
    calibration, held_out = activations(weights.shape[1], inputs)
    scheme = (inputs.form, inputs.scope, inputs.group)
    made = {
        "rounding": quantized(weights, *scheme),
        "GPTQ": gptq(weights, calibration, *scheme),
        "AWQ": awq(weights, calibration, *scheme),
    }
    return tuple(
        Method(name, error(weights, rounded, calibration), error(weights, rounded, held_out))
        for name, rounded in made.items()
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    names = tuple(row.scheme for row in outputs.table)
    kinds = tuple(method.method for method in outputs.methods)
    wrong = Axis("Relative output error", "", "lower")
    return (
        Plot(
            "Rounding by scheme",
            Axis("Scheme"),
            wrong,
            (Line("rounding", names, tuple(row.error for row in outputs.table)),),
            bars=True,
        ),
        Plot(
            "Rounding, GPTQ and AWQ",
            Axis("Method"),
            wrong,
            (
                Line("calibration data", kinds, tuple(method.calibration_error for method in outputs.methods)),
                Line("held out", kinds, tuple(method.held_out_error for method in outputs.methods)),
            ),
            bars=True,
            note=f"{inputs.form} {inputs.scope}",
        ),
    )


QUANTIZATION = Calculator(
    name="quantization",
    title="Quantization lab",
    subject="Models",
    summary="Rounds a matrix to INT8, INT4, FP8 or FP4 under scales per tensor, channel or group, by rounding, GPTQ "
    "and AWQ, and measures what that does to its output.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "w_q = s·round(w / s), s = max|w| / q_max over the scope, q_max = 2^(b−1) − 1 (FP8 448, FP4 6)",
        "error = ‖W_q·x − W·x‖ / ‖W·x‖",
        "GPTQ: columns in turn; the error of each is spread over those left by the inverse of H = X·X^(T)",
        "AWQ: W_q = round(W·diag(s_x)) / diag(s_x), s_x = mean|x|^α, α from 0 to 1 with the least error",
    ),
    symbols={"b": "bits of an integer format", "X": "calibration activations"},
    source="Frantar et al. 2022, GPTQ; Lin et al. 2023, AWQ; OCP 8-bit Floating Point Specification 1.0; OCP "
    "Microscaling Formats 1.0; Dettmers et al. 2022, LLM.int8() (outlier channels).",
    assumptions=(
        "Activations are drawn, not recorded: correlated channels of log-normal magnitude. The reference table has "
        "one normal input.",
        "The error of one matrix is no measure of a model's quality: evaluate that on your tasks.",
        "A file that is quantized already is lab material as it stands: its own rounding is not undone.",
        "The lab uses the beginning of a large matrix, and GPTQ and AWQ a part of that.",
    ),
    plots=_plots,
    files=True,
)
