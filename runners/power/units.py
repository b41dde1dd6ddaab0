"""Units that instruments tell power and energy in, as factors to milliwatts and millijoules."""

POWER_TO_MW = {"W": 1e3, "mW": 1.0, "uW": 1e-3, "kW": 1e6}
#: Wmin: watt-minutes, as the first Shelly plugs count.
ENERGY_TO_MJ = {"J": 1e3, "mJ": 1.0, "uJ": 1e-3, "kJ": 1e6, "Wmin": 6e4, "Wh": 3.6e6, "kWh": 3.6e9}
UNITS = (*POWER_TO_MW, *ENERGY_TO_MJ)


def column_and_factor(unit: str) -> tuple[str, float]:
    """The column of samples that a unit belongs to, and what turns its numbers into that column's."""
    return ("power_mw", POWER_TO_MW[unit]) if unit in POWER_TO_MW else ("energy_mj", ENERGY_TO_MJ[unit])
