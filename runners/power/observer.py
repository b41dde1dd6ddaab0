"""What reading the instruments costs itself: idle power read seldom, often, and seldom again (A-B-A). Pure.

The effect is the mean of the middle less that of both ends: what drifts evenly cancels.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runners.metrics import Mark
from runners.power.devices import Device
from runners.power.instruments import counter_rise

Window = tuple[int, int]
Floats = npt.NDArray[np.float64]

#: The windows of an account's ``idle_windows_ns`` in the order in which they were read.
OBSERVED = ("off_before", "before", "off_after")
_SIGNS = (-0.5, 1.0, -0.5)
#: The mean power of blocks of this length, which holds many updates, is what scatters.
_BLOCK_NS = 1_900_000_000
#: Student's t, 97.5 %, by degrees of freedom from 1 on.
_T = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14)


@dataclass(frozen=True)
class Observer:
    """Watts, and between which they lie with 95 % confidence; None where there is too little to tell."""

    watts: float
    bounds_w: tuple[float, float] | None


def observer_effect(
    samples: pa.Table, windows: Mapping[str, Window | None], devices: Sequence[dict[str, Any]]
) -> Observer | None:
    """Of the measured devices together; None when a window of ``OBSERVED`` was not read, or one of them has no figure
    in it.
    """
    known = [device for device in map(Device.from_json, devices) if device.mark is Mark.MEASURED]
    spans = [window for name in OBSERVED if (window := windows.get(name)) is not None]
    if not known or len(spans) < len(OBSERVED):
        return None
    watts, variance, freedom = 0.0, 0.0, 0
    for device in known:
        rows = samples.filter(pc.equal(samples["device"], device.id))
        blocks = [_blocks_w(rows, window, device) for window in spans]
        if any(not len(found) for found in blocks):
            return None
        watts += sum(sign * float(np.mean(found)) for sign, found in zip(_SIGNS, blocks, strict=True))
        own = sum(len(found) - 1 for found in blocks)
        spread = sum(float(np.sum((found - np.mean(found)) ** 2)) for found in blocks) / own if own else 0.0
        variance += spread * sum(sign**2 / len(found) for sign, found in zip(_SIGNS, blocks, strict=True))
        freedom = own if not freedom else min(freedom, own)
    if not freedom:
        return Observer(watts, None)
    half_w = _T[min(freedom, len(_T)) - 1] * sqrt(variance)
    return Observer(watts, (watts - half_w, watts + half_w))


def _blocks_w(rows: pa.Table, window: Window, device: Device) -> Floats:
    """Mean power of each block in the window; empty where it cannot be told.

    A counter's rise between readings a block apart; of power the mean over a block, less what was read before the
    sensor's own mean lay whole inside the window.
    """
    column = "energy_mj" if device.counter else device.power_column
    if column is None:
        return np.zeros(0)
    lag_ns = 0 if device.counter else int((device.power_window_ms + device.update_ms) * 1e6)
    inside = pc.and_(pc.greater_equal(rows["t_ns"], window[0] + lag_ns), pc.less_equal(rows["t_ns"], window[1]))
    known = rows.filter(pc.and_(inside, pc.is_valid(rows[column])))
    t_ns, values = known["t_ns"].to_numpy(), known[column].to_numpy()
    if not device.counter:
        block = (t_ns - window[0]) // _BLOCK_NS
        return np.array([values[block == one].mean() / 1e3 for one in np.unique(block)])
    ends = _apart(t_ns)
    rises = [
        counter_rise(values[i], values[j], int(t_ns[j] - t_ns[i]), wraps=device.wraps, wraps_at_mj=device.wraps_at_mj)
        for i, j in pairwise(ends)
    ]
    if any(rise.energy_j is None for rise in rises):
        return np.zeros(0)
    joules = np.array([rise.energy_j for rise in rises], dtype=np.float64)
    return np.asarray(joules / np.diff(t_ns[ends]) * 1e9, dtype=np.float64)


def _apart(t_ns: npt.NDArray[np.int64]) -> list[int]:
    """Places of readings that are a block apart, from the first on."""
    ends: list[int] = []
    for place, at_ns in enumerate(t_ns):
        if not ends or at_ns - t_ns[ends[-1]] >= _BLOCK_NS:
            ends.append(place)
    return ends
