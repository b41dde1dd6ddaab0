"""Speculative decoding: what drafting buys, how far to draft, and when it stops paying.

Tokens per target pass and speedup: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative
Decoding" (2023), equations 1 and theorem 3.8. The effect of the batch follows from the roofline: checking g tokens for
each of B sequences is one pass over g·B tokens more, free only while the pass waits for memory.
"""

from dataclasses import dataclass, replace

from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import number, result

MOST_DRAFTED = 32
_TABLE_ACCEPTANCE = (0.6, 0.8, 0.9)
_TABLE_DRAFTED = (3, 5)


def tokens_per_pass(acceptance: float, drafted: int) -> float:
    """Expected tokens of one target pass, (1 - a^(g+1)) / (1 - a), as the sum that it is: a = 1 gives g + 1."""
    return sum(acceptance**k for k in range(drafted + 1))


@dataclass(frozen=True)
class Inputs:
    acceptance: float = number(
        0.8,
        "",
        "Acceptance",
        "Chance that the target accepts a drafted token. High for code and set phrases, lower for free text at high "
        "temperature.",
        low=0,
        high=1,
        symbol="a",
    )
    drafted: int = number(4, "tok", "Drafted tokens", "Tokens drafted per pass.", low=0, high=MOST_DRAFTED, symbol="g")
    draft_cost: float = number(
        0.05,
        "",
        "Cost of a draft step",
        "Time of one draft step relative to one step of the target. 0 for n-gram lookup.",
        low=0,
        high=2,
        symbol="c",
    )
    batch: int = number(1, "", "Batch", "Sequences decoded together.", low=1, high=4096, symbol="B")
    crossover_batch: float = number(
        256,
        "",
        "Crossover batch",
        "Batch at which a plain decode step turns from memory-bound to compute-bound; decode-limit gives it.",
        low=1,
        high=4096,
        symbol="B_x",
    )
    time_energy_share: float = number(
        0.7,
        "",
        "Energy that goes with time",
        "Share of a plain step's energy that follows time (idle power, weight reads), the rest following arithmetic.",
        low=0,
        high=1,
        symbol="φ",
    )


@dataclass(frozen=True)
class Row:
    acceptance: float = result("", "Acceptance", decimals=2)
    drafted: int = result("tok", "Drafted")
    tokens_per_pass: float = result("tok", "Tokens per pass", decimals=2)
    speedup: float = result("×", "Speedup", decimals=2)


@dataclass(frozen=True)
class Outputs:
    tokens_per_pass: float = result("tok", "Tokens per pass", "Expected, per sequence.", decimals=2)
    speedup: float = result(
        "×", "Speedup at this batch", "Tokens per second against plain decoding.", decimals=2, better="higher"
    )
    speedup_alone: float = result("×", "Speedup at batch 1", "E / (1 + g·c).", decimals=2, better="higher")
    best_drafted: int = result("tok", "Best number of drafted tokens", "At this acceptance, cost and batch.")
    best_speedup: float = result("×", "Speedup at the best number", decimals=2, better="higher")
    break_even_batch: float | None = result(
        "", "Stops paying at batch", "Above it, plain decoding is faster. Missing when it pays at no batch."
    )
    energy_ratio: float = result(
        "×", "Energy per token", "Against plain decoding at this batch; below 1 saves.", decimals=2, better="lower"
    )
    table: tuple[Row, ...] = result(label="Acceptance and drafted tokens at this cost, batch 1")


def speedup(inputs: Inputs) -> float:
    """Tokens per second against plain decoding at the given batch; a plain step takes max(1, B / B_x)."""
    plain = max(1.0, inputs.batch / inputs.crossover_batch)
    check = max(1.0, inputs.batch * (inputs.drafted + 1) / inputs.crossover_batch)
    spent = check + inputs.drafted * inputs.draft_cost * plain
    return tokens_per_pass(inputs.acceptance, inputs.drafted) * plain / spent


def _break_even(inputs: Inputs) -> float | None:
    """Batch at which the speedup falls to 1. Drafting that does not pay at batch 1 pays nowhere."""
    kept = tokens_per_pass(inputs.acceptance, inputs.drafted) - inputs.drafted * inputs.draft_cost
    pays = inputs.drafted > 0 and kept > 1
    return inputs.crossover_batch * kept / (inputs.drafted + 1) if pays else None


def _energy_ratio(inputs: Inputs) -> float:
    worked = inputs.drafted + 1 + inputs.drafted * inputs.draft_cost
    work_ratio = worked / tokens_per_pass(inputs.acceptance, inputs.drafted)
    return inputs.time_energy_share / speedup(inputs) + (1 - inputs.time_energy_share) * work_ratio


def _row(inputs: Inputs, acceptance: float, drafted: int) -> Row:
    alone = replace(inputs, acceptance=acceptance, drafted=drafted, batch=1, crossover_batch=4096)
    return Row(acceptance, drafted, tokens_per_pass(acceptance, drafted), speedup(alone))


def compute(inputs: Inputs) -> Outputs:
    """Speedup, best draft length, break-even batch and energy."""
    alone = _row(inputs, inputs.acceptance, inputs.drafted)
    ranked = [replace(inputs, drafted=drafted) for drafted in range(MOST_DRAFTED + 1)]
    best = max(ranked, key=speedup)
    return Outputs(
        alone.tokens_per_pass,
        speedup(inputs),
        alone.speedup,
        best.drafted,
        speedup(best),
        _break_even(inputs),
        _energy_ratio(inputs),
        tuple(_row(inputs, a, g) for a in _TABLE_ACCEPTANCE for g in _TABLE_DRAFTED),
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    gain = Axis("Speedup", "×", "higher")
    by_acceptance = tuple(
        SPECULATIVE.line(inputs, "drafted", "speedup", f"a = {acceptance:g}", acceptance=acceptance)
        for acceptance in sorted({*_TABLE_ACCEPTANCE, inputs.acceptance})
    )
    over_batch = SPECULATIVE.line(inputs, "batch", "speedup", f"g = {inputs.drafted}")
    even = Line("plain decoding", over_batch.x, (1.0,) * len(over_batch.x), dashed=True)
    return (
        Plot("Speedup over drafted tokens", Axis("Drafted tokens", "tok"), gain, by_acceptance, now=inputs.drafted),
        Plot("Speedup over batch", Axis("Batch"), gain, (over_batch, even), now=inputs.batch),
    )


SPECULATIVE = Calculator(
    name="speculative",
    title="Speculative decoding",
    subject="Decoding",
    summary="A draft proposes tokens, the target checks them in one pass: expected tokens per pass, speedup, best "
    "draft length, and the batch at which it stops paying.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=(
        "E = (1 − a^(g+1)) / (1 − a); for a = 1, E = g + 1",
        "speedup = E / (1 + g·c) at batch 1",
        "speedup(B) = E·t / (max(1, B·(g+1) / B_x) + g·c·t), t = max(1, B / B_x)",
        "energy = φ / speedup(B) + (1 − φ)·(g + 1 + g·c) / E",
    ),
    symbols={"E": "tokens per target pass", "t": "time of a plain step, in units of a memory-bound one"},
    source="Leviathan, Kalman, Matias 2023, Fast Inference from Transformers via Speculative Decoding (arXiv "
    "2211.17192); batch term from the roofline of a decode step.",
    assumptions=(
        "Each drafted token is accepted with the same chance, independently of the others.",
        "Rejected tokens are resampled from the corrected distribution: the output distribution stays the target's.",
        "The draft step slows with the batch as a plain target step does.",
        "KV-cache reads are left out of the batch term.",
    ),
    plots=_plots,
)
