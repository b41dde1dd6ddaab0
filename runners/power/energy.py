"""The energy ledger of a window, from power samples. Pure: no clock, no file, no instrument."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runners.metrics import Mark
from runners.power.boundary import holders
from runners.power.devices import Device, Layer, weakest
from runners.power.instruments import GAP_NS, REASONS, Floats, Int64s, Reading, counter_energy, fresh, power_integral
from runners.power.state import device_state, state_fault, state_flags

MIN_UPDATES = 20
SHORT_S = 30.0
AGREE = (0.95, 1.05)
LIMIT_TOLERANCE = 1.1


@dataclass(frozen=True)
class DeviceEnergy:
    """One device in one window: what each instrument says, and the figure that stands (J), or why there is none.

    ``edge_j`` is the uncertainty of the window's edges: one update period of mean power at each, and as long as the
    clocks may differ where another machine sampled. ``state`` is that of docs/result-files.md.
    """

    device: Device
    counter_j: float | None = None
    integral_j: float | None = None
    energy_j: float | None = None
    edge_j: float = 0.0
    reason: str = ""
    state: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        """Counter / integral; None unless both are there and above 0."""
        return self.counter_j / self.integral_j if self.counter_j and self.integral_j else None

    @property
    def verdict(self) -> str:
        if self.ratio is None:
            return "single"
        return "agree" if AGREE[0] <= self.ratio <= AGREE[1] else "disagree"

    @property
    def method(self) -> str:
        if self.device.mark is Mark.MODELLED:
            return "model"
        return "counter" if self.device.counter else "power_integral"

    @property
    def bounds_j(self) -> tuple[float, float]:
        """Within these the truth is taken to lie: gain error and edges, and both instruments where they disagree."""
        readings = [self.energy_j] if self.verdict != "disagree" else [self.counter_j, self.integral_j]
        known = [reading for reading in readings if reading is not None]
        low = min(known) * self.device.gain_low - self.edge_j
        return max(0.0, low), max(known) * self.device.gain_high + self.edge_j


def window_ledger(
    samples: pa.Table,
    start_ns: int,
    end_ns: int,
    *,
    description: dict[str, Any],
    pue: float | None = None,
    pue_source: str = "",
    idle_w: float | None = None,
    idle_bounds_w: tuple[float, float] | None = None,
    pue_bounds: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """The ledger of docs/result-files.md for the window (CLOCK_MONOTONIC ns), ready for JSON.

    ``description`` is the sampler's own account (``Sampler.describe()``, ``power.json``). A sampled device without a
    number leaves its layer, and every total that would hold it, without one: a part is never shown as the whole.
    """
    window_s = (end_ns - start_ns) / 1e9
    energies = device_energies(samples, start_ns, end_ns, description)
    layers = [_layer(group, held) for group, held in _groups(energies)]
    counted = [layer for layer in layers if not layer["within"]]
    it_j = _total(counted)
    mark = weakest(layer["mark"] for layer in counted)
    full_j = it_j * pue if it_j is not None and pue is not None else None
    overhead = _overhead(counted, pue, pue_bounds, pue_source) if it_j is not None and pue is not None else []
    accelerators = [layer for layer in layers if layer["layer"] == Layer.ACCELERATOR]
    return {
        "window_s": window_s,
        "short": window_s < SHORT_S,
        "layers": [*layers, *_idle(idle_w, idle_bounds_w, window_s, mark), *overhead],
        "narrow_j": _total(accelerators),
        "it_j": it_j,
        "full_j": full_j,
        "boundary": "+".join(dict.fromkeys(layer["layer"] for layer in counted)),
        "mark": mark,
        "instruments": [_instrument(energy) for energy in energies],
        "states": [
            {"device": energy.device.id, **energy.state}
            for energy in energies
            if energy.device.layer is Layer.ACCELERATOR
        ],
        "reasons": _reasons(energies),
    }


def mean_power_w(samples: pa.Table, start_ns: int, end_ns: int, *, description: dict[str, Any]) -> float | None:
    """Mean power of all that counts (W), each joule once; None when any of it has no number for the window."""
    counted = _counted(device_energies(samples, start_ns, end_ns, description))
    if counted is None:
        return None
    return sum(energy.energy_j or 0.0 for energy in counted) / ((end_ns - start_ns) / 1e9)


def power_bounds_w(
    samples: pa.Table, start_ns: int, end_ns: int, *, description: dict[str, Any]
) -> tuple[float, float] | None:
    """Between these (W) the mean power of all that counts lies; None when any of it has no number for the window."""
    counted = _counted(device_energies(samples, start_ns, end_ns, description))
    if counted is None:
        return None
    seconds = (end_ns - start_ns) / 1e9
    lows, highs = zip(*(energy.bounds_j for energy in counted), strict=True)
    return sum(lows) / seconds, sum(highs) / seconds


def _counted(energies: tuple[DeviceEnergy, ...]) -> list[DeviceEnergy] | None:
    """Those that are in no other one's figure; None without devices, or when one of them has no number."""
    counted = [energy for group, held in _groups(energies) if not held for energy in group]
    return None if not counted or any(energy.energy_j is None for energy in counted) else counted


def device_energies(
    samples: pa.Table, start_ns: int, end_ns: int, description: dict[str, Any]
) -> tuple[DeviceEnergy, ...]:
    """Each sampled device in the window, accelerators first."""
    lost = any(note["code"] == "sampler_lost" for note in description["notes"])
    devices = [Device.from_json(data) for data in description["devices"]]
    devices.sort(key=lambda device: list(Layer).index(device.layer))
    return tuple(
        _device_energy(samples.filter(pc.equal(samples["device"], device.id)), start_ns, end_ns, device, lost)
        for device in devices
    )


def _device_energy(rows: pa.Table, start_ns: int, end_ns: int, device: Device, sampler_lost: bool) -> DeviceEnergy:
    update_ns = int(device.update_ms * 1e6)
    state = device_state(rows, start_ns, end_ns)
    ended = rows.filter(pc.and_(pc.is_valid(rows["reason"]), pc.less_equal(rows["t_ns"], end_ns)))
    if ended.num_rows:
        return DeviceEnergy(device, reason=ended["reason"][0].as_py(), state=state)
    if end_ns - start_ns < MIN_UPDATES * update_ns:
        return DeviceEnergy(device, reason="window_too_short", state=state)
    counter = _counter(rows, start_ns, end_ns, device)
    integral = _integral(rows, start_ns, end_ns, device)
    chosen = counter if device.counter else integral
    assert chosen is not None  # noqa: S101
    reason = chosen.reason or _out_of_range(rows, start_ns, end_ns, chosen.energy_j) or state_fault(state)
    if reason == "window_not_bracketed" and sampler_lost:
        reason = "sampler_lost"
    return DeviceEnergy(
        device,
        counter_j=counter.energy_j if counter else None,
        integral_j=integral.energy_j if integral else None,
        energy_j=None if reason else chosen.energy_j,
        edge_j=2 * (chosen.energy_j or 0.0) * (update_ns + device.clock_bound_ms * 1e6) / (end_ns - start_ns),
        reason=reason,
        state=state,
    )


def _counter(rows: pa.Table, start_ns: int, end_ns: int, device: Device) -> Reading | None:
    if not device.counter:
        return None
    t_ns, energy_mj = _series(rows, "energy_mj")
    return counter_energy(
        t_ns,
        energy_mj,
        start_ns,
        end_ns,
        update_ns=int(device.update_ms * 1e6),
        wraps=device.wraps,
        wraps_at_mj=device.wraps_at_mj,
    )


def _integral(rows: pa.Table, start_ns: int, end_ns: int, device: Device) -> Reading | None:
    if device.power_column is None:
        return None if device.counter else Reading(None, "no_power_reading")
    t_ns, power_mw = _series(rows, device.power_column)
    stamps = rows.filter(pc.is_valid(rows[device.power_column]))["sensor_t_us"]
    if stamps.null_count == 0:
        new = fresh(stamps.to_numpy(), power_mw)
        t_ns, power_mw = t_ns[new], power_mw[new]
    # A reading stands until the next one: when it is read it is half an update old, on average.
    window_ns = int((device.power_window_ms + device.update_ms) * 1e6)
    gap_ns = max(GAP_NS, int(3 * device.update_ms * 1e6))
    return power_integral(t_ns, power_mw, start_ns, end_ns, window_ns=window_ns, gap_ns=gap_ns)


def _series(rows: pa.Table, column: str) -> tuple[Int64s, Floats]:
    known = rows.filter(pc.is_valid(rows[column]))
    return known["t_ns"].to_numpy(), known[column].to_numpy()


def _out_of_range(rows: pa.Table, start_ns: int, end_ns: int, energy_j: float | None) -> str:
    if energy_j is None:
        return ""
    mean_mw = energy_j / (end_ns - start_ns) * 1e12
    t_ns, limit_mw = _series(rows, "power_limit_mw")
    limits = limit_mw[(t_ns >= start_ns) & (t_ns <= end_ns)]
    too_high = limits.size > 0 and mean_mw > LIMIT_TOLERANCE * float(np.max(limits))
    return "power_out_of_range" if mean_mw < 0 or too_high else ""


def _groups(energies: tuple[DeviceEnergy, ...]) -> list[tuple[list[DeviceEnergy], str]]:
    """Devices of one machine, layer, source and pool together, each group with the layer that holds it already ("":
    none).
    """
    groups: dict[tuple[Layer, str, str, str], list[DeviceEnergy]] = {}
    for energy in energies:
        device = energy.device
        groups.setdefault((device.layer, device.source, device.host, device.pool), []).append(energy)
    return list(zip(groups.values(), holders([line[:3] for line in groups]), strict=True))


def _layer(group: list[DeviceEnergy], held: str) -> dict[str, Any]:
    """One line of the ledger for devices of one layer and source. Gain errors are taken to go the same way in all."""
    devices = [energy.device for energy in group]
    known = [energy.energy_j for energy in group if energy.energy_j is not None]
    whole = len(known) == len(group)
    return {
        "layer": devices[0].layer,
        "pool": devices[0].pool,
        "within": held,
        "label": _label(devices),
        "energy_j": sum(known) if whole else None,
        "low_j": sum(energy.bounds_j[0] for energy in group) if whole else None,
        "high_j": sum(energy.bounds_j[1] for energy in group) if whole else None,
        "mark": weakest(device.mark for device in devices),
        "method": _common([energy.method for energy in group], "power_integral"),
        "source": "; ".join(dict.fromkeys(device.reading for device in devices)),
        "note": "; ".join(dict.fromkeys([*_not_added(held, devices[0].layer), *(_remark(energy) for energy in group)])),
        "sampled_by": ", ".join(dict.fromkeys(device.host for device in devices if device.host)),
    }


def _label(devices: list[Device]) -> str:
    names = dict.fromkeys(device.name for device in devices)
    if len(names) == 1 and len(devices) > 1:
        return f"{len(devices)} × {devices[0].name}"
    return ", ".join(names)


def _common(values: list[str], otherwise: str) -> str:
    return values[0] if len(set(values)) == 1 else otherwise


def _not_added(held: str, layer: Layer) -> list[str]:
    if held == layer:
        return [f"Another instrument of the same {layer} counts: this one is not added."]
    return [f"Inside the power of the {held}: not added to it."] if held else []


def _remark(energy: DeviceEnergy) -> str:
    if energy.reason:
        return REASONS.get(energy.reason, energy.reason)
    shared = "The board serves others too: all of it is counted. " if energy.device.shared else ""
    return shared + energy.device.gain_source


def _total(layers: list[dict[str, Any]]) -> float | None:
    values = [layer["energy_j"] for layer in layers]
    return sum(values) if values and None not in values else None


def _idle(
    idle_w: float | None, bounds_w: tuple[float, float] | None, window_s: float, mark: Mark | None
) -> list[dict[str, Any]]:
    """For information: this share lies inside the layers above it and is not added to any total."""
    if idle_w is None:
        return []
    low_j, high_j = (bound * window_s for bound in bounds_w) if bounds_w else (None, None)
    return [
        {
            "layer": "idle",
            "pool": "",
            "within": "",
            "label": "Idle share",
            "energy_j": idle_w * window_s,
            "low_j": low_j,
            "high_j": high_j,
            "mark": mark,
            "method": "factor",
            "source": "idle power before the first stage × window",
            "note": "Contained in the layers above, not added to them.",
            "sampled_by": "",
        }
    ]


def _overhead(
    layers: list[dict[str, Any]], pue: float, bounds: tuple[float, float] | None, pue_source: str
) -> list[dict[str, Any]]:
    """Cooling and power conversion of the building: IT energy × (PUE - 1), between the bounds of both where known."""
    lowest, highest = bounds or (pue, pue)
    return [
        {
            "layer": "overhead",
            "pool": "",
            "within": "",
            "label": f"Facility overhead (PUE {pue:g})",
            "energy_j": sum(layer["energy_j"] for layer in layers) * (pue - 1),
            "low_j": sum(layer["low_j"] for layer in layers) * (lowest - 1),
            "high_j": sum(layer["high_j"] for layer in layers) * (highest - 1),
            "mark": Mark.ASSUMED,
            "method": "factor",
            "source": pue_source or "PUE as given, without a source",
            "note": "",
            "sampled_by": "",
        }
    ]


def _instrument(energy: DeviceEnergy) -> dict[str, Any]:
    return {
        "device": energy.device.id,
        "counter_j": energy.counter_j,
        "integral_j": energy.integral_j,
        "ratio": energy.ratio,
        "verdict": energy.verdict,
    }


def _codes(energy: DeviceEnergy) -> list[str]:
    """Why there is no figure, else what must be known beside it."""
    if energy.reason:
        return [energy.reason]
    disagree = ["disagree"] if energy.verdict == "disagree" else []
    return disagree + (state_flags(energy.state) if energy.device.layer is Layer.ACCELERATOR else [])


def _reasons(energies: tuple[DeviceEnergy, ...]) -> list[dict[str, str]]:
    found: dict[str, list[str]] = {}
    for energy in energies:
        for code in _codes(energy):
            found.setdefault(code, []).append(energy.device.name)
    reasons = [
        {"code": code, "text": f"{', '.join(dict.fromkeys(names))}: {REASONS.get(code, code)}"}
        for code, names in found.items()
    ]
    return reasons or ([] if energies else [{"code": "no_power", "text": "Nothing was sampled: see the power notes."}])
