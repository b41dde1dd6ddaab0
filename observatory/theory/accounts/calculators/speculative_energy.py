"""Energy of a token under speculative decoding, from measured energies of a step."""

from dataclasses import dataclass

from observatory.theory.calculator import Axis, Calculator, Plot
from observatory.theory.fields import number, result
from observatory.theory.speculation import MOST_DRAFTED, tokens_per_pass


@dataclass(frozen=True)
class Inputs:
    target_j: float = number(
        1.0, "J", "Target step", "Energy of one step of the target.", low=0, high=1e6, symbol="E_t"
    )
    draft_j: float = number(0.05, "J", "Draft step", "Energy of one step of the draft.", low=0, high=1e6, symbol="E_d")
    acceptance: float = number(0.8, "", "Acceptance", "Of a drafted token.", low=0, high=1, symbol="a")
    drafted: int = number(4, "tok", "Drafted tokens", "Per pass.", low=0, high=MOST_DRAFTED, symbol="g")


@dataclass(frozen=True)
class Outputs:
    j_per_token: float = result("J/tok", "Energy per token", decimals=4, better="lower")
    against_plain: float | None = result("×", "Against plain decoding", "Below 1 saves.", decimals=3, better="lower")


def compute(inputs: Inputs) -> Outputs:
    spent = inputs.target_j + inputs.drafted * inputs.draft_j
    per_token = spent / tokens_per_pass(inputs.acceptance, inputs.drafted)
    return Outputs(per_token, per_token / inputs.target_j if inputs.target_j else None)


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    line = SPECULATIVE_ENERGY.line(inputs, "acceptance", "j_per_token")
    x, y = Axis("Acceptance"), Axis("Energy per token", "J/tok", "lower")
    return (Plot("Energy over acceptance", x, y, (line,), now=inputs.acceptance),)


SPECULATIVE_ENERGY = Calculator(
    name="speculative-energy",
    title="Energy of speculative decoding",
    subject="Energy",
    summary="Joules per token from the measured energy of a target step and of a draft step.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("J per token = (E_t + g·E_d) / E", "E = (1 − a^(g+1)) / (1 − a)"),
    symbols={"E": "tokens per target pass"},
    source="Leviathan, Kalman, Matias 2023 (arXiv 2211.17192) for the tokens per pass; energies as measured.",
    assumptions=("Checking the drafted tokens takes the energy of one step: memory-bound, small batch.",),
    plots=_plots,
)
