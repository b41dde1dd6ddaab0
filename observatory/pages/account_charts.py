"""Charts of energy by layer, cost over utilisation and carbon by region: pure functions, like those of ``charts``."""

from collections.abc import Mapping, Sequence
from typing import Any

from observatory.pages.charts import COLOURS, GREY, Chart, Trace, axis, layout, plain, shown
from observatory.pages.results import StageResults
from observatory.pages.run_carbon import Place
from observatory.pages.run_cost import BASES, Row, RunCost
from observatory.theory.accounts.hourly import Basis

_HOVER = "%{customdata}<extra></extra>"
_LAYER_COLOURS = {
    "accelerator": COLOURS[0],
    "cpu": COLOURS[1],
    "dram": COLOURS[2],
    "host": COLOURS[4],
    "overhead": COLOURS[3],
    "idle": GREY,
}
_UTILISATIONS = tuple(step / 20 for step in range(1, 21))


def ledger_bars(ledger: Mapping[str, Any]) -> Chart:
    """Stacked bars: the layers of the narrow, the IT and the full boundary one under the other, idle inside them."""
    layers = [layer for layer in ledger["layers"] if layer.get("energy_j") is not None]
    stacks = _stacks(ledger)
    traces = [_layer_trace(layer, index, stacks) for index, layer in enumerate(layers)]
    rows = [
        [layer["label"], layer["layer"], shown(layer["energy_j"], "J"), _bounds(layer), layer["mark"], layer["source"]]
        for layer in layers
    ]
    y = axis("", autorange="reversed")
    drawn = layout(axis("Energy of the window, J, lower is better"), y, height=120 + 52 * len(stacks), barmode="stack")
    drawn["legend"] = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    drawn["showlegend"] = True
    return Chart(
        {"data": traces, "layout": drawn},
        ("Layer", "Kind", "Energy", "Between", "Mark", "Source"),
        rows,
        "Hatched: modelled or assumed." if any(layer["mark"] != "measured" for layer in layers) else "",
    )


def _stacks(ledger: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Bars by name, with the layers that each holds; a boundary whose sum is unknown has no bar."""
    host = ("accelerator", "cpu", "dram", "host")
    kinds = {"narrow": ("narrow_j", ("accelerator",)), "IT": ("it_j", host), "full": ("full_j", (*host, "overhead"))}
    stacks = {name: held for name, (key, held) in kinds.items() if ledger.get(key) is not None}
    known = {layer["layer"] for layer in ledger["layers"] if layer.get("energy_j") is not None}
    return stacks | ({"idle, within": ("idle",)} if "idle" in known else {})


def _layer_trace(layer: Mapping[str, Any], index: int, stacks: Mapping[str, tuple[str, ...]]) -> Trace:
    part = bool(layer.get("within"))  # of another layer: only its own boundary shows it
    within = [name for name, held in stacks.items() if layer["layer"] in held and (name == "narrow" or not part)]
    hover = (
        f"{plain(layer['label'])}<br>{shown(layer['energy_j'], 'J')}{_between(layer)}"
        f"<br>{plain(layer['mark'])}, {plain(layer['source'])}"
    )
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(layer["label"]),
        "x": [layer["energy_j"]] * len(within),
        "y": within,
        "width": 0.6,
        "marker": {
            "color": _LAYER_COLOURS.get(layer["layer"], COLOURS[index % len(COLOURS)]),
            "pattern": {"shape": "" if layer["mark"] == "measured" else "/", "solidity": 0.4},
        },
        "customdata": [hover] * len(within),
        "hovertemplate": _HOVER,
    }


def _bounds(layer: Mapping[str, Any]) -> str:
    low, high = layer.get("low_j"), layer.get("high_j")
    return "" if low is None or high is None else f"{shown(low, 'J')} to {shown(high, 'J')}"


def _between(layer: Mapping[str, Any]) -> str:
    bounds = _bounds(layer)
    return f"<br>between {bounds}" if bounds else ""


def cost_lines(cost: RunCost, stage: StageResults) -> Chart | None:
    """Cost per M output tokens over utilisation, a line a basis; the chosen one is thick."""
    lines: list[Trace] = []
    rows: list[list[str]] = []
    for index, (basis, label) in enumerate(BASES.items()):
        made = [cost.row(stage, basis, share) for share in _UTILISATIONS]
        if made[0].usd_per_mtok_output is None:
            continue
        lines.append(_cost_line(made, basis, label, index, basis is cost.choice.basis))
        rows += [[label, f"{share:.0%}", shown(row.usd_per_mtok_output, "$/Mtok")]
                 for share, row in zip(_UTILISATIONS[3::4], made[3::4], strict=True)]  # fmt: skip
    if not lines:
        return None
    values = [value for line in lines for value in line["y"]]
    drawn = layout(
        axis("Utilisation, share of the hours that serve like this", tickformat=".0%"),
        axis("Cost per M output tokens, $/Mtok,<br>lower is better", of=values),
    )
    now = {"type": "line", "x0": cost.choice.utilisation, "x1": cost.choice.utilisation, "yref": "paper", "y0": 0,
           "y1": 1, "line": {"color": GREY, "dash": "dot", "width": 1}}  # fmt: skip
    drawn["shapes"] = [now]
    drawn["showlegend"] = True
    note = "" if len(lines) == len(BASES) else "A basis without a line lacks a price or a measurement: see the table."
    return Chart({"data": lines, "layout": drawn}, ("Basis", "Utilisation", "Per M output tokens"), rows, note)


def _cost_line(made: Sequence[Row], basis: Basis, label: str, index: int, chosen: bool) -> Trace:
    ys = [row.usd_per_mtok_output for row in made]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": label,
        "x": list(_UTILISATIONS),
        "y": ys,
        "line": {"color": COLOURS[index], "width": 4 if chosen else 2},
        "customdata": [
            f"{label}<br>{shown(y, '$/Mtok')} at {share:.0%}" for share, y in zip(_UTILISATIONS, ys, strict=True)
        ],
        "hovertemplate": _HOVER,
    }


def carbon_by_region(here: Place | None, others: Sequence[Place], left_out: int) -> Chart | None:
    """Grams of a query at the run's own place and elsewhere, location based; diamonds: market based where published."""
    found = [*([here] if here else []), *others]
    if not found:
        return None
    names = [plain(place.name) for place in found]
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "name": "location based",
        "x": [place.location_g for place in found],
        "y": names,
        "marker": {"color": [COLOURS[6] if place is here else COLOURS[0] for place in found]},
        "customdata": [
            f"{plain(place.name)}<br>{shown(place.location_g, 'g CO₂e')}, PUE {place.pue:g}" for place in found
        ],
        "hovertemplate": _HOVER,
    }
    market = [place for place in found if place.market_g is not None]
    marks: Trace = {
        "type": "scatter",
        "mode": "markers",
        "name": "market based",
        "x": [place.market_g for place in market],
        "y": [plain(place.name) for place in market],
        "marker": {"symbol": "diamond", "size": 9, "color": COLOURS[1]},
        "customdata": [f"{plain(p.name)}<br>{shown(p.market_g, 'g CO₂e')}, market based" for p in market],
        "hovertemplate": _HOVER,
    }
    y = axis("", autorange="reversed", tickfont={"size": 10})
    drawn = layout(axis("Carbon of a query, g CO₂e, lower is better"), y, height=120 + 20 * len(found))
    drawn["showlegend"] = True
    rows = [[p.name, f"{p.pue:g}", shown(p.location_g, "g"), shown(p.market_g, "g")] for p in found]
    note = f"{left_out} places between are left out. " if left_out else ""
    note += "Each with its own PUE and grid, for the IT energy measured here."
    columns = ("Place", "PUE", "Location based", "Market based")
    return Chart({"data": [bars, *([marks] if market else [])], "layout": drawn}, columns, rows, note)
