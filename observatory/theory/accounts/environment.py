"""Carbon, water and the share of making the hardware.

Carbon = facility energy x grid intensity, where facility energy = IT energy x PUE, once. Location based: the grid's
average; market based: after contracts (GHG Protocol, Scope 2 Guidance). Water = IT energy x (WUE + PUE x water of the
grid): WUE counts litres per kWh of IT energy, so PUE is not applied to it (The Green Grid, white paper 35).
"""

from dataclasses import dataclass
from enum import StrEnum

#: Pounds per megawatt-hour to grams per kilowatt-hour; exact by the definition of the pound.
G_PER_KWH_OF_LB_PER_MWH = 0.45359237
S_PER_YEAR = 365 * 86_400


class GridBasis(StrEnum):
    LOCATION = "location"
    MARKET = "market"


def g_per_kwh(lb_per_mwh: float) -> float:
    return lb_per_mwh * G_PER_KWH_OF_LB_PER_MWH


def carbon_g(facility_kwh: float, grid_g_per_kwh: float) -> float:
    """Grams of CO2e of the electricity."""
    return facility_kwh * grid_g_per_kwh


@dataclass(frozen=True)
class Water:
    """Litres. ``grid_l`` is the water of making the electricity, None when its factor is unknown, as is ``total_l``."""

    site_l: float
    grid_l: float | None
    total_l: float | None


def water_l(it_kwh: float, wue_l_per_kwh: float, *, pue: float | None, grid_l_per_kwh: float | None) -> Water:
    """Water of a site and of the electricity that it takes."""
    site = it_kwh * wue_l_per_kwh
    if pue is None or grid_l_per_kwh is None:
        return Water(site, None, None)
    grid = it_kwh * pue * grid_l_per_kwh
    return Water(site, grid, site + grid)


def embodied_g(made_kg: float, lifetime_years: float, occupied_s: float, sharing: float = 1.0) -> float:
    """Grams of CO2e of making the hardware, for the time that it was occupied; ``sharing`` served at a time."""
    return made_kg * 1e3 * occupied_s / (lifetime_years * S_PER_YEAR * sharing)
