"""Energy per query at a stated traffic, with the idle time between."""

from dataclasses import dataclass

from observatory.theory.calculator import Axis, Calculator, Plot
from observatory.theory.fields import number, result
from runners.power.windows import duty_cycle_wh


@dataclass(frozen=True)
class Inputs:
    queries_per_hour: float = number(
        1000, "1/h", "Traffic", "Queries that the machine gets in an hour.", low=0.001, high=1e9, symbol="q"
    )
    active_wh_per_query: float = number(
        0.10, "Wh", "Energy of a query", "While serving, idle power included.", low=0, high=1e6, symbol="e"
    )
    idle_w: float = number(
        300, "W", "Idle power", "With the model loaded and no traffic.", low=0, high=1e7, symbol="P_i"
    )
    busy_share: float = number(0.25, "", "Busy share", "Of the hour.", low=0, high=1, symbol="b")
    pue: float | None = number(None, "", "PUE", "Empty: IT energy only.", low=1, high=5)


@dataclass(frozen=True)
class Outputs:
    wh_per_query: float = result("Wh", "Energy per query", "IT energy, idle time included.", decimals=4, better="lower")
    idle_wh_per_query: float = result("Wh", "of it idle", decimals=4)
    times_active: float | None = result("×", "Against the busy figure", decimals=2)
    mean_power_w: float = result("W", "Mean power", better="lower")
    full_wh_per_query: float | None = result("Wh", "With overhead", "× PUE; missing while it is unknown.", decimals=4)


def compute(inputs: Inputs) -> Outputs:
    idle_hours = 1 - inputs.busy_share
    wh = duty_cycle_wh(inputs.active_wh_per_query, inputs.idle_w, idle_hours, inputs.queries_per_hour)
    return Outputs(
        wh_per_query=wh,
        idle_wh_per_query=wh - inputs.active_wh_per_query,
        times_active=wh / inputs.active_wh_per_query if inputs.active_wh_per_query else None,
        mean_power_w=wh * inputs.queries_per_hour,
        full_wh_per_query=None if inputs.pue is None else wh * inputs.pue,
    )


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    line = DUTY_CYCLE.line(inputs, "busy_share", "wh_per_query")
    x, y = Axis("Busy share"), Axis("Energy per query", "Wh", "lower")
    note = "Traffic is held: a busier machine at the same traffic serves more slowly."
    return (Plot("Energy over busy share", x, y, (line,), now=inputs.busy_share, note=note),)


DUTY_CYCLE = Calculator(
    name="duty-cycle",
    title="Energy at a stated traffic",
    subject="Energy",
    summary="Energy per query when the machine serves for a part of the hour and stands idle for the rest.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("E = e + P_i × (1 − b) / q",),
    source="Conservation of energy over an hour.",
    assumptions=("Idle power is that of a machine that stays ready; switching off is not modelled.",),
    plots=_plots,
)
