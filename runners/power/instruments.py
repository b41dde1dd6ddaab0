"""Energy of a window from one series of readings: a counter's steps, or the integral of power. Pure functions.

Both refuse rather than guess: the result then carries a code of ``REASONS`` instead of a number.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

#: Longest silence of an instrument inside a window; a slow one may be silent for three of its updates.
GAP_NS = 3_000_000_000
#: A wrapped counter that implies more than this was reset instead: no CPU package draws so much.
MAX_WRAP_W = 5_000.0
#: Steps whose beat is averaged.
_BEAT = 21
#: The period that fits the steps best is sought among these parts of the known one.
_PERIODS = np.linspace(0.95, 1.05, 21)
#: Readings nearer than this share of an update show when it happened.
_OVERSAMPLED = 0.75

REASONS: dict[str, str] = {
    "window_too_short": "The window holds fewer than 20 updates of the instrument: measure for longer.",
    "window_not_bracketed": "There are no readings on both sides of the window: sample from before it until after it.",
    "sampling_gap": "No reading for more than 3 s inside the window: is the machine overloaded or the instrument away?",
    "counter_reset": "The energy counter went backwards: the driver was reloaded or the device was reset. Run again.",
    "counter_stale": "The energy counter stood still while power was drawn: the driver's counter is stuck.",
    "wrap_unresolvable": "The energy counter wrapped and its range cannot be read: this interval is lost.",
    "power_out_of_range": "The mean power is negative or above 1.1 times the limit: the reading is not believable.",
    "gpu_lost": "The GPU fell off the bus: see the kernel log (dmesg, Xid errors). Nothing counts from there on.",
    "sampler_lost": "The power sampler ended before the window did.",
    "no_power_reading": "The device gave neither an energy counter nor a power reading.",
    "power_limit_changed": "The power limit was changed inside the window: it is not one state that was measured.",
    "device_count_changed": "The driver lists another number of GPUs than at the start: one came or went. Run again.",
    "contaminated": "Another process computed on the GPU inside the window: its energy cannot be told apart.",
    "throttled_power": "Power held the clocks back for a part of the window: the figure is that of the capped card.",
    "throttled_thermal": "Heat held the clocks back for a part of the window: look after cooling, or start cooler.",
    "throttled_hardware": "The board slowed its clocks down by itself (power brake or hardware slowdown).",
    "disagree": "Energy counter and integrated power differ by more than 5 %: both are shown, trust neither alone.",
}


@dataclass(frozen=True)
class Reading:
    """Joules, or the code of the reason why there is no number."""

    energy_j: float | None
    reason: str = ""


def counter_energy(
    t_ns: Int64s,
    energy_mj: Floats,
    start_ns: int,
    end_ns: int,
    *,
    update_ns: int,
    wraps: bool = False,
    wraps_at_mj: float | None = None,
) -> Reading:
    """What a counter (mJ) gained in the window.

    A counter moves in steps, one an update period. Its value is exact only at a step, so the window's edges are
    interpolated between the steps around them.
    """
    moved = np.flatnonzero(np.diff(energy_mj)) + 1
    step_ns = _step_times(t_ns, moved, update_ns)
    before = int(np.searchsorted(step_ns, start_ns, side="right")) - 1
    after = int(np.searchsorted(step_ns, end_ns, side="left"))
    if before < 0 or after >= len(step_ns):
        return Reading(None, _why_no_step(t_ns, start_ns, end_ns, update_ns))
    steps, step_ns = moved[before : after + 1], step_ns[before : after + 1]
    if _longest(t_ns[steps[0] - 1 : steps[-1] + 1]) > max(GAP_NS, 3 * update_ns):
        return Reading(None, "sampling_gap")
    if _longest(step_ns) > max(GAP_NS, 3 * update_ns):
        return Reading(None, "counter_stale")
    rises = np.diff(energy_mj[steps])
    reason = _unwrap(rises, np.diff(step_ns), wraps, wraps_at_mj)
    if reason:
        return Reading(None, reason)
    gained = np.concatenate(([0.0], np.cumsum(rises)))
    edges = np.interp([0, end_ns - start_ns], step_ns - start_ns, gained)
    return Reading(float(edges[1] - edges[0]) / 1e3)


def _step_times(t_ns: Int64s, moved: npt.NDArray[np.intp], update_ns: int) -> Int64s:
    """When the counter stepped: between the last reading before and the first one after, and an update before that one
    at most, for a step has never been missed by more.

    Half way between them, where it is not read more often than it moves. Else its steps share a beat, which the mean
    over the steps around gives more exactly than two readings do.
    """
    after_ns = t_ns[moved]
    before_ns = np.maximum(t_ns[moved - 1], after_ns - update_ns)
    middle_ns = before_ns + (after_ns - before_ns) // 2
    if len(moved) < _BEAT or np.median(after_ns - before_ns) > _OVERSAMPLED * update_ns:
        return middle_ns
    late_ns = _off_beat(middle_ns - middle_ns[0], update_ns)
    return np.asarray(np.clip(middle_ns - late_ns, before_ns, after_ns), dtype=np.int64)


def _off_beat(t_ns: Int64s, period_ns: int) -> Int64s:
    """By how much each stamp is late on the beat of those around it, which comes about every ``period_ns``."""
    found = []
    for period in period_ns * _PERIODS:
        turns = np.exp(2j * np.pi * t_ns / period)
        beat = np.convolve(turns, np.ones(_BEAT), "same")
        found.append((np.abs(beat).sum(), np.angle(turns * beat.conj()) / (2 * np.pi) * period))
    _, late_ns = max(found, key=lambda pair: pair[0])
    return np.asarray(np.rint(late_ns), dtype=np.int64)


def counter_rise(
    start_mj: float, end_mj: float, span_ns: int, *, wraps: bool = False, wraps_at_mj: float | None = None
) -> Reading:
    """What a counter (mJ) gained between two readings; at most one wrap."""
    rises = np.array([end_mj - start_mj])
    reason = _unwrap(rises, np.array([span_ns]), wraps, wraps_at_mj)
    return Reading(None, reason) if reason else Reading(float(rises[0]) / 1e3)


def power_integral(
    t_ns: Int64s, power_mw: Floats, start_ns: int, end_ns: int, *, window_ns: int = 0, gap_ns: int = GAP_NS
) -> Reading:
    """Trapezoid under power (mW) over the window.

    Each reading is the mean over the ``window_ns`` before it, so it is dated at the centre of that mean; a one-second
    mean needs readings until half a second after the window.
    """
    centre_ns = t_ns - window_ns // 2
    before = int(np.searchsorted(centre_ns, start_ns, side="right")) - 1
    after = int(np.searchsorted(centre_ns, end_ns, side="left"))
    if before < 0 or after >= len(centre_ns):
        return Reading(None, "window_not_bracketed")
    if _longest(centre_ns[before : after + 1]) > gap_ns:
        return Reading(None, "sampling_gap")
    offsets = (centre_ns[before : after + 1] - start_ns).astype(np.float64)
    edges = np.array([0.0, end_ns - start_ns])
    inside = offsets[(offsets > 0) & (offsets < edges[1])]
    grid = np.concatenate((edges[:1], inside, edges[1:]))
    height = np.interp(grid, offsets, power_mw[before : after + 1])
    return Reading(float(np.trapezoid(height, grid)) / 1e12)


def fresh(sensor_t_us: Int64s, value: Floats) -> npt.NDArray[np.bool_]:
    """Which readings are new: one that repeats both the sensor's stamp and the value is the same reading again."""
    if len(value) == 0:
        return np.zeros(0, dtype=np.bool_)
    changed = (np.diff(sensor_t_us) != 0) | (np.diff(value) != 0)
    return np.concatenate(([True], changed))


def _longest(t_ns: Int64s) -> int:
    return int(np.diff(t_ns).max(initial=0))


def _why_no_step(t_ns: Int64s, start_ns: int, end_ns: int, update_ns: int) -> str:
    """A counter that was watched long enough on both sides and still did not step is stuck."""
    watched = len(t_ns) and t_ns[0] <= start_ns - 3 * update_ns and t_ns[-1] >= end_ns + 3 * update_ns
    return "counter_stale" if watched else "window_not_bracketed"


def _unwrap(rises: Floats, spans_ns: Int64s, wraps: bool, wraps_at_mj: float | None) -> str:
    """Makes wrapped rises whole, in place; a reason when a decrease cannot be one wrap."""
    falls = rises < 0
    if not falls.any():
        return ""
    if not wraps:
        return "counter_reset"
    if wraps_at_mj is None:
        return "wrap_unresolvable"
    rises[falls] += wraps_at_mj
    too_steep = rises[falls] > MAX_WRAP_W * spans_ns[falls] / 1e6
    return "counter_reset" if (rises[falls] < 0).any() or too_steep.any() else ""
