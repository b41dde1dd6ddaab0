"""Carbon, water and embodied carbon."""

from dataclasses import dataclass

from observatory.theory.accounts import environment
from observatory.theory.accounts.environment import GridBasis
from observatory.theory.calculator import Axis, Calculator, Plot
from observatory.theory.fields import choice, number, result


@dataclass(frozen=True)
class CarbonInputs:
    it_kwh: float = number(
        1.0, "kWh", "IT energy", "Without the overhead of the building.", low=0, high=1e12, symbol="E"
    )
    pue: float | None = number(1.2, "", "PUE", "Empty: facility energy and carbon stay unknown.", low=1, high=5)
    grid_g_per_kwh: float = number(
        400, "g/kWh", "Grid", "Intensity of the electricity.", low=0, high=10_000, symbol="g"
    )
    grid_lb_per_mwh: float | None = number(
        None, "lb/MWh", "Grid in pounds", "As US sources publish it; stands in for the one above.", low=0, high=25_000
    )
    basis: GridBasis = choice(
        GridBasis.LOCATION, "Basis", "location: the grid's average. market: after the operator's contracts."
    )


@dataclass(frozen=True)
class CarbonOutputs:
    carbon_g: float | None = result("g CO₂e", "Carbon", decimals=5, better="lower")
    facility_kwh: float | None = result("kWh", "Facility energy", decimals=4, better="lower")
    grid_g_per_kwh: float = result("g/kWh", "Grid intensity", decimals=3)
    basis: str = result(label="Basis", default="")


def compute_carbon(inputs: CarbonInputs) -> CarbonOutputs:
    pounds = inputs.grid_lb_per_mwh
    grid = inputs.grid_g_per_kwh if pounds is None else environment.g_per_kwh(pounds)
    facility = None if inputs.pue is None else inputs.it_kwh * inputs.pue
    carbon = None if facility is None else environment.carbon_g(facility, grid)
    return CarbonOutputs(carbon, facility, grid, f"{inputs.basis.value} based")


def _carbon_plots(inputs: CarbonInputs, outputs: CarbonOutputs) -> tuple[Plot, ...]:
    line = CARBON.line(inputs, "grid_g_per_kwh", "carbon_g", grid_lb_per_mwh=None)
    x, y = Axis("Grid", "g/kWh"), Axis("Carbon", "g CO₂e", "lower")
    return (Plot("Carbon over the grid", x, y, (line,), now=outputs.grid_g_per_kwh),)


CARBON = Calculator(
    name="carbon",
    title="Carbon of electricity",
    subject="Carbon and water",
    summary="Grams of CO₂e of IT energy at a site, location or market based.",
    inputs=CarbonInputs,
    outputs=CarbonOutputs,
    compute=compute_carbon,
    formula=("carbon = E × PUE × g",),
    source="GHG Protocol, Scope 2 Guidance (2015).",
    assumptions=("PUE is applied once. Location and market based figures answer different questions: name which.",),
    plots=_carbon_plots,
)


@dataclass(frozen=True)
class WaterInputs:
    it_kwh: float = number(
        1.0, "kWh", "IT energy", "Without the overhead of the building.", low=0, high=1e12, symbol="E"
    )
    wue_l_per_kwh: float = number(0.5, "L/kWh", "WUE", "Litres at the site per kWh of IT energy.", low=0, high=100)
    pue: float | None = number(1.2, "", "PUE", "Needed for the water of the grid.", low=1, high=5)
    grid_l_per_kwh: float | None = number(
        3.0, "L/kWh", "Water of the grid", "Per kWh of electricity; empty: unknown.", low=0, high=1000, symbol="w"
    )


@dataclass(frozen=True)
class WaterOutputs:
    total_l: float | None = result(
        "L", "Water", "Missing while that of the grid is unknown.", decimals=5, better="lower"
    )
    site_l: float = result("L", "At the site", decimals=5, better="lower")
    grid_l: float | None = result("L", "Of the electricity", decimals=5, better="lower")


def compute_water(inputs: WaterInputs) -> WaterOutputs:
    found = environment.water_l(
        inputs.it_kwh, inputs.wue_l_per_kwh, pue=inputs.pue, grid_l_per_kwh=inputs.grid_l_per_kwh
    )
    return WaterOutputs(found.total_l, found.site_l, found.grid_l)


WATER = Calculator(
    name="water",
    title="Water",
    subject="Carbon and water",
    summary="Litres of water of IT energy: at the site, and of the electricity.",
    inputs=WaterInputs,
    outputs=WaterOutputs,
    compute=compute_water,
    formula=("water = E × (WUE + PUE × w)",),
    source="The Green Grid, white paper 35 (WUE); Li and others, Making AI less thirsty (arXiv 2304.03271).",
    assumptions=("WUE counts litres per kWh of IT energy, so PUE is not applied to it.",),
)


@dataclass(frozen=True)
class EmbodiedInputs:
    accelerators: float = number(1, "", "Accelerators", "That served.", low=0.001, high=1e6)
    accelerator_made_kg: float = number(
        164, "kg CO₂e", "Making an accelerator", "164: an H100-class board.", low=0, high=1e6
    )
    server_made_kg: float = number(5700, "kg CO₂e", "Making a server", "Without accelerators.", low=0, high=1e7)
    accelerators_per_server: float = number(8, "", "Accelerators in a server", "", low=1, high=1000)
    years: float = number(3, "years", "Lifetime", "", low=0.1, high=30)
    occupied_s: float = number(5, "s", "Occupied", "How long the request took.", low=0, high=1e10)
    sharing: float = number(64, "", "Shared by", "Requests served at a time.", low=1, high=1e6)


@dataclass(frozen=True)
class EmbodiedOutputs:
    embodied_g: float = result("g CO₂e", "Embodied carbon", "Share of making the hardware.", decimals=6, better="lower")
    made_kg: float = result("kg CO₂e", "Made in all")


def compute_embodied(inputs: EmbodiedInputs) -> EmbodiedOutputs:
    made_kg = inputs.accelerators * (
        inputs.accelerator_made_kg + inputs.server_made_kg / inputs.accelerators_per_server
    )
    return EmbodiedOutputs(environment.embodied_g(made_kg, inputs.years, inputs.occupied_s, inputs.sharing), made_kg)


EMBODIED = Calculator(
    name="embodied",
    title="Embodied carbon",
    subject="Carbon and water",
    summary="The share of making the hardware that a request bears, by the time it occupied it.",
    inputs=EmbodiedInputs,
    outputs=EmbodiedOutputs,
    compute=compute_embodied,
    formula=("share = made × occupied / (lifetime × sharing)",),
    source="EcoLogits (Rincé and Banse); Boavizta for the server.",
    assumptions=("The lifetime is spread over all of its seconds, busy or idle.",),
)
