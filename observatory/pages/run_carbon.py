"""Carbon and water of the measured energy, at the run's own site and elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from observatory.catalog.models import Site
from observatory.pages.results import RunResults, StageResults
from observatory.runs.pricing import Factors, chosen
from observatory.theory.accounts import environment

#: How many places are shown at each end of the range.
FEW_PLACES = 10


@dataclass(frozen=True)
class Footprint:
    """Of one query. Grams of CO2e by the grid's average and after contracts, millilitres of water; None is unknown."""

    location_g: float | None
    market_g: float | None
    site_ml: float | None
    total_ml: float | None


@dataclass(frozen=True)
class Embodied:
    """Of one query: grams of CO2e of making what serves it, spread over its lifetime at the measured throughput; None
    with ``words`` that say why.
    """

    g: float | None
    words: str
    source: str = ""


def embodied(factors: Factors, stage: StageResults) -> Embodied:
    """All accelerators of the deployment with their part of a server, at the factors of a pricing."""
    queries_per_s = stage.value("request_per_s")
    if not factors.pools or not queries_per_s:
        return Embodied(None, "no accelerator is stated, or nothing was served")
    if unknown := [pool["accelerator"]["name"] for pool in factors.pools if not pool["embodied"]]:
        return Embodied(None, f"nothing is known of making {', '.join(dict.fromkeys(unknown))}")
    grams = sum(_made_g(pool, 1 / queries_per_s) for pool in factors.pools)
    words = "; ".join(_made_words(pool) for pool in factors.pools)
    sources = dict.fromkeys(pool["embodied"]["source"] for pool in factors.pools)
    return Embodied(grams, f"{words}; all of the time serves like this", "; ".join(filter(None, sources)))


def _made_g(pool: Mapping[str, Any], occupied_s: float) -> float:
    known = pool["embodied"]
    one_kg = known["accelerator_made_kg"] + known["server_made_kg"] / known["accelerators_per_server"]
    return float(environment.embodied_g(pool["count"] * one_kg, known["lifetime_years"], occupied_s, 1))


def _made_words(pool: Mapping[str, Any]) -> str:
    known = pool["embodied"]
    return (
        f"{pool['count']} × ({known['accelerator_made_kg']:g} kg of {pool['accelerator']['name']} + "
        f"{known['server_made_kg']:g} kg of a server / {known['accelerators_per_server']:g}) over "
        f"{known['lifetime_years']:g} years, as known from {known['effective_from']} on"
    )


@dataclass(frozen=True)
class Place:
    """What a query would emit and drink somewhere, with that place's PUE, grid and WUE."""

    name: str
    pue: float
    location_g: float
    market_g: float | None
    site_ml: float | None = None
    total_ml: float | None = None


def footprint(wh: float, factors: Any) -> Footprint:
    """``wh``: IT energy of the query; ``factors`` with pue, grids and water."""
    kwh, pue = wh / 1e3, factors.pue
    facility = None if pue is None else kwh * pue
    grids = (factors.grid_g_per_kwh, factors.grid_market_g_per_kwh)
    carbon = [None if facility is None or grid is None else environment.carbon_g(facility, grid) for grid in grids]
    water = None
    if factors.wue_l_per_kwh is not None:
        water = environment.water_l(kwh, factors.wue_l_per_kwh, pue=pue, grid_l_per_kwh=factors.grid_l_per_kwh)
    site_ml = None if water is None else water.site_l * 1e3
    total_ml = None if water is None or water.total_l is None else water.total_l * 1e3
    return Footprint(carbon[0], carbon[1], site_ml, total_ml)


def context(results: RunResults, stage: StageResults, pricing: str) -> dict[str, Any]:
    """What the Energy tab shows of carbon and water, with the factors of a pricing, else those of the run's day."""
    own = chosen(results.run, pricing)
    wh = stage.value("wh_per_query")
    return {
        "factors": own.factors,
        "embodied": embodied(own.factors, stage),
        "priced": own,
        "place_query": urlencode({"stage": stage.index, "pricing": own.pk or ""}),
        "footprint": None if wh is None else footprint(wh, own.factors),
    }


def places(results: RunResults, stage: StageResults, pricing: str) -> tuple[Place | None, list[Place], int]:
    """(the run's own place, others from the lowest to the highest, how many were left out between)."""
    wh = stage.value("wh_per_query")
    if wh is None:
        return None, [], 0
    own = chosen(results.run, pricing)
    here = _place(own.factors.site or "this run's site", wh, own.factors)
    known = [_place(site.name, wh, site) for site in Site.objects.on(own.day) if site.name != own.factors.site]
    found = sorted((place for place in known if place is not None), key=lambda place: place.location_g)
    if len(found) <= 2 * FEW_PLACES:
        return here, found, 0
    return here, found[:FEW_PLACES] + found[-FEW_PLACES:], len(found) - 2 * FEW_PLACES


def _place(name: str, wh: float, factors: Any) -> Place | None:
    made = footprint(wh, factors)
    if made.location_g is None:
        return None
    return Place(name, factors.pue, made.location_g, made.market_g, made.site_ml, made.total_ml)
