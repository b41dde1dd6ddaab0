"""The pools of a deployment side by side, such as prefill and decode: their energy, and their part of the cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from observatory.pages.results import StageResults
from observatory.runs.pricing import Factors
from runners.metrics import Mark
from runners.power.devices import Layer, weakest


@dataclass(frozen=True)
class PoolEnergy:
    """Of the steady window: J, share of all accelerators, W, and J for each output token of the whole deployment."""

    name: str
    hardware: str
    energy_j: float | None
    share: float | None
    power_w: float | None
    wh_per_query: float | None
    j_per_output_token: float | None
    mark: Mark | None

    @property
    def percent(self) -> float | None:
        return None if self.share is None else 100 * self.share


def energies(factors: Factors, stage: StageResults) -> list[PoolEnergy]:
    """A row a pool, which sum exactly to the accelerators; none where all accelerators do the same."""
    ledger = stage.stage.energy or {}
    by_pool = _layers(ledger)
    if len(by_pool) < 2:
        return []
    hardware = {pool["name"]: f"{pool['count']}× {pool['accelerator']['name']}" for pool in factors.pools}
    return [_energy(name, hardware.get(name, ""), layers, stage) for name, layers in by_pool.items()]


def _layers(ledger: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = {}
    for layer in ledger.get("layers") or []:
        if layer["layer"] == Layer.ACCELERATOR and layer.get("pool"):
            found.setdefault(layer["pool"], []).append(layer)
    return found


def pool_power_w(name: str, stage: StageResults) -> float | None:
    """Mean power of a pool in the window of the stage; None where a part of it has no number."""
    ledger = stage.stage.energy or {}
    energy_j = _sum(_layers(ledger).get(name, ()))
    return None if energy_j is None else energy_j / float(ledger["window_s"])


def _sum(layers: Sequence[Mapping[str, Any]]) -> float | None:
    values = [layer["energy_j"] for layer in layers]
    return None if not values or None in values else float(sum(values))


def _energy(name: str, hardware: str, layers: Sequence[Mapping[str, Any]], stage: StageResults) -> PoolEnergy:
    ledger = stage.stage.energy or {}
    energy_j, narrow_j, it_j = _sum(layers), ledger.get("narrow_j"), ledger.get("it_j")

    def scaled(metric: str) -> float | None:
        whole = stage.value(metric)
        return None if energy_j is None or not it_j or whole is None else whole * energy_j / it_j

    return PoolEnergy(
        name,
        hardware,
        energy_j,
        energy_j / narrow_j if energy_j is not None and narrow_j else None,
        pool_power_w(name, stage),
        scaled("wh_per_query"),
        scaled("j_per_output_token"),
        weakest(Mark(layer["mark"]) for layer in layers),
    )
