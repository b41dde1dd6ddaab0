"""The energy of one thing (a query, a window, a year) by layers, from the accelerator to the facility.

IT energy = accelerator + host + idle share; full = IT energy x PUE. Source of the boundary: Elsworth and others,
"Measuring the environmental impact of delivering AI at Google Scale" (arXiv 2508.15734). PUE is applied once; an
unknown PUE leaves the full figure unknown. Intervals of layers are taken to err together, so they add.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from runners.metrics import Mark
from runners.power.devices import weakest
from runners.prices import Impossible

#: From the inside out.
LAYERS = ("accelerator", "host", "idle")


@dataclass(frozen=True)
class Layer:
    """One layer (Wh). ``uncertainty`` is the half-width of its interval as a share of it; None when unknown."""

    name: str
    wh: float
    mark: Mark
    source: str
    uncertainty: float | None = None

    def __post_init__(self) -> None:
        if self.wh < 0:
            raise Impossible(f"{self.name}: {self.wh:g} Wh is below 0.", "Give 0 or more.")


@dataclass(frozen=True)
class Total:
    """A sum of layers (Wh) within a boundary, with its interval where every layer has one."""

    boundary: str
    wh: float
    low_wh: float | None
    high_wh: float | None
    mark: Mark


@dataclass(frozen=True)
class Ledger:
    """Narrow and full side by side. ``full`` is None while the PUE is unknown."""

    layers: tuple[Layer, ...]
    narrow: Total | None
    it: Total
    full: Total | None
    overhead_wh: float | None


def ledger(layers: Iterable[Layer], pue: float | None = None, pue_mark: Mark = Mark.ASSUMED) -> Ledger:
    """Adds up the layers that are known; a layer left out is named by its absence from the boundary."""
    known = tuple(sorted(layers, key=lambda layer: LAYERS.index(layer.name)))
    if not known:
        raise Impossible("No layer is known.", "Give the energy of the accelerator, the host or the idle share.")
    if pue is not None and pue < 1:
        raise Impossible(f"A PUE of {pue:g} is below 1, and facility energy holds the IT energy.", "Give 1 or more.")
    narrow = [layer for layer in known if layer.name == "accelerator"]
    it = _total(known)
    full = None if pue is None else _scaled(it, pue, weakest((it.mark, pue_mark)) or pue_mark)
    return Ledger(known, _total(narrow) if narrow else None, it, full, None if full is None else full.wh - it.wh)


def _total(layers: Iterable[Layer]) -> Total:
    items = list(layers)
    spread = [layer.wh * layer.uncertainty for layer in items if layer.uncertainty is not None]
    whole = len(spread) == len(items)
    wh = sum(layer.wh for layer in items)
    mark = weakest(layer.mark for layer in items)
    assert mark is not None  # noqa: S101
    return Total(
        "+".join(layer.name for layer in items),
        wh,
        max(0.0, wh - sum(spread)) if whole else None,
        wh + sum(spread) if whole else None,
        mark,
    )


def _scaled(it: Total, pue: float, mark: Mark) -> Total:
    bounds = [None if bound is None else bound * pue for bound in (it.low_wh, it.high_wh)]
    return Total(f"({it.boundary}) x PUE", it.wh * pue, bounds[0], bounds[1], mark)


def ratio(one: Total, other: Total) -> float:
    """How many times ``other`` ``one`` is. Raises Impossible when they do not hold the same layers."""
    if one.boundary != other.boundary:
        raise Impossible(
            f"Different energy boundaries: one counts {one.boundary}, the other {other.boundary}.",
            "Compare figures of the same boundary.",
        )
    return one.wh / other.wh
