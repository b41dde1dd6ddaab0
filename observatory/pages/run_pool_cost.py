"""What each pool of a deployment adds to the cost of the tokens, on the chosen basis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from observatory.pages import run_cost
from observatory.pages.results import RunResults, StageResults
from observatory.pages.run_cost import Part, Row, RunCost, pool_capex_usd
from observatory.pages.run_pools import pool_power_w
from observatory.theory.accounts.hourly import Basis


@dataclass(frozen=True)
class PoolCost:
    name: str
    hardware: str
    row: Row


#: A difference below this share of the power is that of two ways of adding up.
_NOTHING = 1e-9


def context(results: RunResults, stage: StageResults, query: Mapping[str, str]) -> dict[str, Any]:
    """What the Cost tab shows."""
    found = run_cost.context(results, stage, query)
    return {**found, "pools": costs(found["cost"], stage)}


def costs(cost: RunCost, stage: StageResults) -> list[PoolCost]:
    """A row a pool, and one for the rest where electricity counts: they sum to the row of the stage. None where there
    is one pool, or the price is that of an API.
    """
    pools = cost.factors.pools
    if len(pools) < 2 or cost.choice.basis is Basis.API:
        return []
    parts = [_part(cost, stage, number) for number in range(len(pools))]
    found = [
        PoolCost(part.name, f"{pool['count']}× {pool['accelerator']['name']}", _row(cost, part, stage))
        for pool, part in zip(pools, parts, strict=True)
    ]
    rest_w = _rest_w(parts, stage)
    if cost.choice.basis is not Basis.RENT and rest_w is not None:
        found.append(PoolCost("rest", "host and what else was measured", _row(cost, Part(0, rest_w, 0, "rest"), stage)))
    return found


def _row(cost: RunCost, part: Part, stage: StageResults) -> Row:
    return cost.row_of(part, stage, cost.choice.basis)


def _part(cost: RunCost, stage: StageResults, number: int) -> Part:
    pool = cost.factors.pools[number]
    stated = cost.choice.capex_usd is not None  # of the whole: how it divides is not known
    capex_usd = None if stated else pool_capex_usd(pool, cost.priced.day)
    return Part(pool["usd_per_hour"], pool_power_w(pool["name"], stage), capex_usd, pool["name"])


def _rest_w(parts: list[Part], stage: StageResults) -> float | None:
    whole_w, known = stage.value("power_w"), [part.power_w for part in parts if part.power_w is not None]
    if whole_w is None or len(known) < len(parts):
        return None
    rest_w = whole_w - sum(known)
    return rest_w if rest_w > _NOTHING * whole_w else None
