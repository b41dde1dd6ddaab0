"""The energy of a query by layers, narrow and full side by side."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from observatory.theory.accounts import ledger
from observatory.theory.accounts.calculators.frame import refusing
from observatory.theory.accounts.ledger import Layer
from observatory.theory.calculator import Axis, Calculator, Line, Plot
from observatory.theory.fields import choice, number, result, text
from runners.metrics import Mark
from runners.prices import Impossible


class Known(StrEnum):
    """Where a layer's figure comes from."""

    MEASURED = "measured"
    MODELLED = "modelled"
    ASSUMED = "assumed"


def _wh(default: float, label: str, help: str) -> Any:
    return number(default, "Wh", label, help, low=0, high=1e12, group=label)


def _error(label: str) -> Any:
    help = "Half-width as a share of the figure; empty when unknown."
    return number(None, "", "Uncertainty", help, low=0, high=1, group=label)


def _mark(default: Known, label: str) -> Any:
    return choice(default, "Mark", "Where the figure comes from.", group=label)


def _source(label: str) -> Any:
    return text("", "Source", "Instrument or publication.", group=label)


@dataclass(frozen=True)
class Inputs:
    accelerator_wh: float | None = _wh(0.14, "Accelerator", "Active accelerators.")
    accelerator_mark: Known = _mark(Known.MEASURED, "Accelerator")
    accelerator_uncertainty: float | None = _error("Accelerator")
    accelerator_source: str = _source("Accelerator")
    host_wh: float | None = _wh(0.06, "Host", "CPU, memory and the rest of the machine.")
    host_mark: Known = _mark(Known.MEASURED, "Host")
    host_uncertainty: float | None = _error("Host")
    host_source: str = _source("Host")
    idle_wh: float | None = _wh(0.02, "Idle", "Machines kept ready for the traffic: their share.")
    idle_mark: Known = _mark(Known.MEASURED, "Idle")
    idle_uncertainty: float | None = _error("Idle")
    idle_source: str = _source("Idle")
    pue: float | None = number(1.09, "", "PUE", "Empty: the full figure stays unknown.", low=1, high=5, group="Site")
    pue_mark: Known = _mark(Known.ASSUMED, "Site")
    other_wh: float | None = number(
        None, "Wh", "Another figure", "To compare with, at the boundary below.", low=0, high=1e12, group="Comparison"
    )
    other_boundary: str = text(
        "", "Its boundary", "As written under the sums, such as accelerator.", group="Comparison"
    )


@dataclass(frozen=True)
class LayerRow:
    name: str = result(label="Layer")
    wh: float = result("Wh", "Energy", decimals=4)
    low_wh: float | None = result("Wh", "Low", decimals=4)
    high_wh: float | None = result("Wh", "High", decimals=4)
    mark: str = result(label="Mark")
    source: str = result(label="Source")


@dataclass(frozen=True)
class SumRow:
    name: str = result(label="Sum")
    boundary: str = result(label="Boundary")
    wh: float = result("Wh", "Energy", decimals=4, better="lower")
    low_wh: float | None = result("Wh", "Low", decimals=4)
    high_wh: float | None = result("Wh", "High", decimals=4)
    mark: str = result(label="Mark")


@dataclass(frozen=True)
class Outputs:
    narrow_wh: float | None = result("Wh", "Narrow", "Active accelerators only.", decimals=4, better="lower")
    it_wh: float = result("Wh", "IT", "All layers that are known.", decimals=4, better="lower")
    full_wh: float | None = result("Wh", "Full", "IT × PUE; missing while the PUE is unknown.", decimals=4)
    overhead_wh: float | None = result("Wh", "Overhead", "IT × (PUE − 1).", decimals=4)
    full_to_narrow: float | None = result("×", "Full over narrow", "How much a narrow figure leaves out.", decimals=3)
    comparison: float | None = result("×", "Against the other figure", "At the same boundary only.", decimals=3)
    full_over_other: float | None = result(
        "×",
        "Full over the other figure",
        "What the other's boundary leaves out, when it is of the same system.",
        decimals=3,
    )
    refused: str = result(label="Why not compared", default="")
    layers: tuple[LayerRow, ...] = result(label="Layers", default=())
    sums: tuple[SumRow, ...] = result(label="Sums", default=())


@refusing
def compute(inputs: Inputs) -> Outputs:
    found = ledger.ledger(_layers(inputs), inputs.pue, Mark(inputs.pue_mark.value))
    named = [("narrow", found.narrow), ("IT", found.it), ("full", found.full)]
    sums = [(name, total) for name, total in named if total is not None]
    comparison, refused = _compared(inputs, [total for _, total in sums])
    return Outputs(
        narrow_wh=found.narrow.wh if found.narrow else None,
        it_wh=found.it.wh,
        full_wh=found.full.wh if found.full else None,
        overhead_wh=found.overhead_wh,
        full_to_narrow=found.full.wh / found.narrow.wh if found.full and found.narrow and found.narrow.wh else None,
        comparison=comparison,
        full_over_other=found.full.wh / inputs.other_wh if found.full and inputs.other_wh else None,
        refused=refused,
        layers=tuple(_row(layer) for layer in found.layers),
        sums=tuple(SumRow(name, t.boundary, t.wh, t.low_wh, t.high_wh, t.mark.value) for name, t in sums),
    )


def _layers(inputs: Inputs) -> list[Layer]:
    rows = (
        ("accelerator", inputs.accelerator_wh, inputs.accelerator_mark, inputs.accelerator_source,
         inputs.accelerator_uncertainty),
        ("host", inputs.host_wh, inputs.host_mark, inputs.host_source, inputs.host_uncertainty),
        ("idle", inputs.idle_wh, inputs.idle_mark, inputs.idle_source, inputs.idle_uncertainty),
    )  # fmt: skip
    return [
        Layer(name, wh, Mark(mark.value), source, error) for name, wh, mark, source, error in rows if wh is not None
    ]


def _row(layer: Layer) -> LayerRow:
    error = None if layer.uncertainty is None else layer.wh * layer.uncertainty
    low, high = (None, None) if error is None else (max(0.0, layer.wh - error), layer.wh + error)
    return LayerRow(layer.name, layer.wh, low, high, layer.mark.value, layer.source)


def _compared(inputs: Inputs, sums: list[ledger.Total]) -> tuple[float | None, str]:
    """How many times the other figure the sum of the same boundary is, or why none may be compared with it."""
    if not inputs.other_wh:
        return None, ""
    other = ledger.Total(inputs.other_boundary, inputs.other_wh, None, None, Mark.ASSUMED)
    same = next((total for total in sums if total.boundary == other.boundary), sums[-1])
    try:
        return ledger.ratio(same, other), ""
    except Impossible as error:
        return None, str(error)


def _plots(inputs: Inputs, outputs: Outputs) -> tuple[Plot, ...]:
    names = [row.name for row in outputs.layers]
    values: list[float | None] = [row.wh for row in outputs.layers]
    if outputs.overhead_wh is not None:
        names, values = [*names, "overhead"], [*values, outputs.overhead_wh]
    bars = Line("energy", tuple(names), tuple(values))
    return (Plot("Energy by layer", Axis("Layer"), Axis("Energy", "Wh", "lower"), (bars,), bars=True),)


ENERGY_LEDGER = Calculator(
    name="energy-ledger",
    title="Energy ledger",
    subject="Energy",
    summary="The energy of a query by layers: accelerator, host, idle share, overhead of the building. Narrow and full "
    "figures stand side by side; figures of different boundaries are not compared.",
    inputs=Inputs,
    outputs=Outputs,
    compute=compute,
    formula=("narrow = accelerator", "IT = accelerator + host + idle", "full = IT × PUE"),
    source="Elsworth and others 2025, Measuring the environmental impact of delivering AI at Google Scale (arXiv "
    "2508.15734): 0.24 Wh = 0.14 + 0.06 + 0.02 + 0.02 for the median text prompt.",
    assumptions=(
        "PUE is applied once, to IT energy.",
        "Errors of layers are taken to go the same way, so that their intervals add.",
    ),
    plots=_plots,
)
