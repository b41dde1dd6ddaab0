"""Charts of energy by layer, cost over utilisation and carbon by region: pure functions, like those of ``charts``."""

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from observatory.pages.charts import COLOURS, GREY, Chart, Trace, axis, layout, plain, shown, visible
from observatory.pages.results import StageResults
from observatory.pages.run_carbon import Place
from observatory.pages.run_cost import BASES, Row, RunCost
from observatory.theory.accounts.hourly import Basis
from runners.metrics import significant

_HOVER = "%{customdata}<extra></extra>"
_LAYER_COLOURS = {
    "accelerator": COLOURS[0],
    "cpu": COLOURS[1],
    "dram": COLOURS[2],
    "host": COLOURS[4],
    "overhead": COLOURS[3],
    "idle": GREY,
}
#: Of pools of accelerators, in their order.
_POOL_COLOURS = (COLOURS[0], *COLOURS[5:])
_PATTERNS = {"modelled": "/", "assumed": "."}
_LABEL_WIDTH = 24
_UTILISATIONS = tuple(step / 20 for step in range(1, 21))


def ledger_bars(ledger: Mapping[str, Any]) -> Chart:
    """Stacked bars: the layers of the narrow, the IT and the full boundary one under the other, idle inside them."""
    layers = [layer for layer in ledger["layers"] if layer.get("energy_j") is not None]
    stacks = _stacks(ledger)
    pools = list(dict.fromkeys(layer["pool"] for layer in layers if layer.get("pool")))
    traces = [_layer_trace(layer, _colour(layer, pools), stacks) for layer in layers]
    rows = [
        [_name(layer), layer["layer"], shown(layer["energy_j"], "J"), _bounds(layer), layer["mark"], layer["source"]]
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
        _ledger_note(layers),
    )


def _ledger_note(layers: Sequence[Mapping[str, Any]]) -> str:
    marks = {layer["mark"] for layer in layers}
    said = ["Lines: the band of the layer that ends there."] if any(_bounds(layer) for layer in layers) else []
    said += ["Hatched: modelled."] if "modelled" in marks else []
    return " ".join([*said, *(["Dotted: assumed."] if "assumed" in marks else [])])


def _stacks(ledger: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Bars by name, with the layers that each holds; a boundary whose sum is unknown has no bar."""
    host = ("accelerator", "cpu", "dram", "host")
    kinds = {"narrow": ("narrow_j", ("accelerator",)), "IT": ("it_j", host), "full": ("full_j", (*host, "overhead"))}
    stacks = {name: held for name, (key, held) in kinds.items() if ledger.get(key) is not None}
    known = {layer["layer"] for layer in ledger["layers"] if layer.get("energy_j") is not None}
    return stacks | ({"idle, within": ("idle",)} if "idle" in known else {})


def _colour(layer: Mapping[str, Any], pools: Sequence[str]) -> str:
    if layer.get("pool"):
        return _POOL_COLOURS[pools.index(layer["pool"]) % len(_POOL_COLOURS)]
    return _LAYER_COLOURS[layer["layer"]]


def _name(layer: Mapping[str, Any]) -> str:
    """With its pool, where accelerators share the work."""
    return f"{layer['pool']}: {layer['label']}" if layer.get("pool") else str(layer["label"])


def _layer_trace(layer: Mapping[str, Any], colour: str, stacks: Mapping[str, tuple[str, ...]]) -> Trace:
    part = bool(layer.get("within"))  # of another layer: only its own boundary shows it
    within = [name for name, held in stacks.items() if layer["layer"] in held and (name == "narrow" or not part)]
    hover = (
        f"{plain(_name(layer))}<br>{shown(layer['energy_j'], 'J')}{_between(layer)}"
        f"<br>{plain(layer['mark'])}, {plain(layer['source'])}"
    )
    return {
        "type": "bar",
        "orientation": "h",
        "name": plain(_name(layer)),
        "x": [layer["energy_j"]] * len(within),
        "y": within,
        "width": 0.6,
        "marker": {
            "color": colour,
            "pattern": {"shape": _PATTERNS.get(layer["mark"], ""), "solidity": 0.4},
        },
        "error_x": _band(layer, len(within)),
        "customdata": [hover] * len(within),
        "hovertemplate": _HOVER,
    }


def _band(layer: Mapping[str, Any], count: int) -> dict[str, Any]:
    """At the end of the layer's part of each bar."""
    low, high, energy = layer.get("low_j"), layer.get("high_j"), layer["energy_j"]
    if low is None or high is None:
        return {"visible": False}
    up, down = [max(0.0, high - energy)] * count, [max(0.0, energy - low)] * count
    return {"type": "data", "array": up, "arrayminus": down, "color": GREY, "thickness": 1.5, "width": 6}


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
    drawn_bases, values = len(lines), [value for line in lines for value in line["y"]]
    drawn = layout(
        axis("Utilisation, share of the hours that serve like this", tickformat=".0%"),
        axis("Cost per M output tokens, $/Mtok,<br>lower is better", of=values),
    )
    now = {"type": "line", "x0": cost.choice.utilisation, "x1": cost.choice.utilisation, "yref": "paper", "y0": 0,
           "y1": 1, "line": {"color": GREY, "dash": "dot", "width": 1}}  # fmt: skip
    drawn["shapes"] = [now]
    drawn["showlegend"] = True
    if even := _break_even(cost, stage):
        lines.append(even)
        rows.append(
            ["Break-even of rent and API", f"{significant(100 * even['x'][0], 2)} %", shown(even["y"][0], "$/Mtok")]
        )
    note = "" if drawn_bases == len(BASES) else "A basis without a line lacks a price or a measurement: see the table."
    return Chart({"data": lines, "layout": drawn}, ("Basis", "Utilisation", "Per M output tokens"), rows, note)


def _break_even(cost: RunCost, stage: StageResults) -> Trace | None:
    """Where rent costs what the API charges; None where that is unknown or never."""
    even, _ = cost.break_even(stage)
    if even is None or not 0 < even <= 1:
        return None
    share = float(even)
    usd = cost.row(stage, Basis.RENT, share).usd_per_mtok_output
    return {
        "type": "scatter",
        "mode": "markers+text",
        "name": "break-even of rent and API",
        "x": [share],
        "y": [usd],
        "text": [f"break-even {significant(100 * share, 2)} %"],
        "textposition": "bottom right",
        "cliponaxis": False,
        "marker": {"symbol": "x", "size": 11, "color": COLOURS[6]},
        "customdata": [f"rent costs what the API charges at {significant(100 * share)} %<br>{shown(usd, '$/Mtok')}"],
        "hovertemplate": _HOVER,
    }


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
    names = {id(place): _place_name(place, here) for place in found}
    bars = _place_bars(found, here, names, "location based", [place.location_g for place in found], "g CO₂e")
    market = [place for place in found if place.market_g is not None]
    marks = _place_marks(market, names, "market based", [place.market_g for place in market], "g CO₂e")
    rows = [[p.name, f"{p.pue:g}", shown(p.location_g, "g"), shown(p.market_g, "g")] for p in found]
    note = f"{left_out} places between are left out. " if left_out else ""
    note += "Each with its own PUE and grid, for the IT energy measured here."
    columns = ("Place", "PUE", "Location based", "Market based")
    drawn = _place_layout("Carbon of a query, g CO₂e, lower is better", found, here)
    return Chart({"data": [bars, *([marks] if market else [])], "layout": drawn}, columns, rows, note)


def water_by_region(here: Place | None, others: Sequence[Place], left_out: int) -> Chart | None:
    """Millilitres of a query at the sites that publish their WUE; diamonds: with the water of the electricity."""
    elsewhere = sorted(others, key=lambda place: place.site_ml or 0.0)
    found = [place for place in (*([here] if here else []), *elsewhere) if place.site_ml is not None]
    if not found:
        return None
    names = {id(place): _place_name(place, here) for place in found}
    bars = _place_bars(found, here, names, "at the site", [place.site_ml for place in found], "ml")
    whole = [place for place in found if place.total_ml is not None]
    marks = _place_marks(whole, names, "with that of the electricity", [place.total_ml for place in whole], "ml")
    rows = [[p.name, shown(p.site_ml, "ml"), shown(p.total_ml, "ml")] for p in found]
    note = "IT energy × WUE, to which PUE is not applied. Places without a published WUE are left out."
    columns = ("Place", "At the site", "With that of the electricity")
    drawn = _place_layout("Water of a query, ml, lower is better", found, here)
    return Chart({"data": [bars, *([marks] if whole else [])], "layout": drawn}, columns, rows, note)


def _place_name(place: Place, here: Place | None) -> str:
    return f"{plain(place.name)} (this run)" if place is here else plain(place.name)


def _place_layout(title: str, found: Sequence[Place], here: Place | None) -> dict[str, Any]:
    labels = [_place_label(place, here) for place in found]
    lines = max(label.count("<br>") + 1 for label in labels)
    names = [_place_name(place, here) for place in found]
    small = {"size": 10}
    y = axis("", autorange="reversed", tickfont=small, tickmode="array", tickvals=names, ticktext=labels)
    return {**layout(axis(title), y, height=130 + (7 + 13 * lines) * len(found), bargap=0.4), "showlegend": True}


def _place_label(place: Place, here: Place | None) -> str:
    """Its name in short lines, so that the bars keep most of a narrow window; hovering tells the whole name."""
    lines = wrap(visible(place.name), _LABEL_WIDTH, max_lines=3, placeholder=" …", break_on_hyphens=False)
    return "<br>".join([*map(plain, lines), *(["(this run)"] if place is here else [])])


def _place_bars(
    found: Sequence[Place],
    here: Place | None,
    names: Mapping[int, str],
    name: str,
    values: Sequence[float | None],
    unit: str,
) -> Trace:
    """The run's own place in a colour of its own."""
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": list(values),
        "y": [names[id(place)] for place in found],
        "marker": {"color": [COLOURS[6] if place is here else COLOURS[0] for place in found]},
        "customdata": [
            f"{names[id(place)]}<br>{shown(value, unit)} {name}, PUE {place.pue:g}"
            for place, value in zip(found, values, strict=True)
        ],
        "hovertemplate": _HOVER,
    }


def _place_marks(
    found: Sequence[Place], names: Mapping[int, str], name: str, values: Sequence[float | None], unit: str
) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": list(values),
        "y": [names[id(place)] for place in found],
        "marker": {"symbol": "diamond", "size": 9, "color": COLOURS[1]},
        "customdata": [
            f"{names[id(place)]}<br>{shown(value, unit)}, {name}" for place, value in zip(found, values, strict=True)
        ],
        "hovertemplate": _HOVER,
    }
