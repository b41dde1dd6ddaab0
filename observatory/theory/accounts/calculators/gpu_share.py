"""A share of an accelerator: what was allocated, used and left idle."""

from dataclasses import dataclass

from observatory.theory.accounts.hourly import allocation
from observatory.theory.calculator import Calculator
from observatory.theory.fields import number, result


@dataclass(frozen=True)
class Inputs:
    share: float = number(0.25, "", "Share", "Of the accelerator that was reserved.", low=0, high=1, symbol="s")
    hours: float = number(2, "h", "Time", "", low=0, high=1e6, symbol="t")
    usd_per_accelerator_hour: float = number(2, "$/h", "Rent", "Of one accelerator.", low=0, high=1_000, symbol="r")
    used: float = number(0.1, "", "Used", "Part of the reserved share that was busy.", low=0, high=1, symbol="b")


@dataclass(frozen=True)
class Outputs:
    allocated_usd: float = result("$", "Allocated", "What was reserved, busy or not.", decimals=4, better="lower")
    used_usd: float = result("$", "Used", "The busy part of it.", decimals=4)
    idle_usd: float = result("$", "Idle", "The rest: a line of its own.", decimals=4, better="lower")


def compute(inputs: Inputs) -> Outputs:
    found = allocation(inputs.share, inputs.hours, inputs.usd_per_accelerator_hour, inputs.used)
    return Outputs(found.allocated_usd, found.used_usd, found.idle_usd)


GPU_SHARE = Calculator(
    name="gpu-share",
    title="Cost of a shared accelerator",
    subject="Money",
    summary="What a share of an accelerator costs by allocation and by use; what stood idle is named.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("allocated = s × t × r", "used = allocated × b", "idle = allocated × (1 − b)"),
    source="Definition; the two bases are those of OpenCost (CNCF).",
    assumptions=("Used and idle add up to what was allocated.",),
)
