"""Power with the model loaded and nothing to do: before the load and after it, and what reading it costs."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from time import monotonic, monotonic_ns, sleep
from typing import Any

import pyarrow as pa

from runners.power.energy import mean_power_w, power_bounds_w
from runners.power.observer import Observer, observer_effect
from runners.power.sampler import Sampler
from runners.spec import Power

#: The card's clocks and sensors need this long to come to rest after the last answer.
SETTLE_S = 2.0
#: How seldom instruments are read for the observer effect, and for how long at least: before and after a time at full
#: pace, so that a steady drift cancels.
SLOW_S = 2.0
OBSERVER_S = 10.0
#: Over this time it is judged whether a card still cools.
COOLING_S = 60.0
_LOOK_S = 0.1
#: What may differ unmentioned: watts, and a share of idle power.
_DRIFT = (1.0, 0.05)
_OBSERVER = (1.0, 0.02)

Window = tuple[int, int]


def idle_seconds(power: Power) -> float:
    """What reading idle power adds to a run, without waiting for a cool start."""
    if not power.sampled:
        return 0.0
    each_s = _seconds(power)
    return (4 if power.observer else 2) * each_s + (SETTLE_S if each_s > 0 else 0.0)


def _seconds(power: Power) -> float:
    return max(power.idle_s, OBSERVER_S) if power.observer else power.idle_s


class Idle:
    """``waiting`` is called with the phase several times a second, and raises to give up."""

    def __init__(self, power: Power, waiting: Callable[[str], None]) -> None:
        # What a power worker elsewhere reads goes on at its own pace.
        self._power = power = replace(power, observer=False) if power.hosts else power
        self._waiting = waiting
        self._seconds = _seconds(power)
        self._before: Window | None = None
        self._off: tuple[Window | None, Window | None] = (None, None)
        self._after: Window | None = None
        self._start: dict[str, Any] = {"start_temperature_c": None, "start_waited_s": None}
        self._notes: list[dict[str, str]] = []

    def before(self, sampler: Sampler) -> None:
        """Waits for a cool start where that was asked for; then reads idle power."""
        if self._power.waits_to_cool:
            self._cool_down(sampler.latest_temperature_c)
        off_before = self._read_slowly(sampler) if self._power.observer else None
        self._before = self._read(self._seconds)
        off_after = self._read_slowly(sampler) if self._power.observer else None
        self._off = (off_before, off_after)
        self._start["start_temperature_c"] = sampler.latest_temperature_c()

    def after(self) -> None:
        """For as long as before, once the card has come to rest."""
        if self._before is not None:
            self._read(SETTLE_S)
            self._after = self._read(self._seconds)

    def account(self, samples: pa.Table, power: dict[str, Any]) -> dict[str, Any]:
        """``power``, the sampler's account, with what was found out here (docs/power.md)."""
        off_before, off_after = self._off
        windows = {"off_before": off_before, "before": self._before, "off_after": off_after, "after": self._after}
        notes = [*power["notes"], *self._notes]
        return with_idle(samples, {**power, **self._start, "notes": notes, "idle_windows_ns": windows})

    def _read(self, seconds: float) -> Window | None:
        if seconds <= 0:
            return None
        start_ns = monotonic_ns()
        while monotonic_ns() - start_ns < seconds * 1e9:
            self._waiting("idle")
            sleep(_LOOK_S)
        return start_ns, monotonic_ns()

    def _read_slowly(self, sampler: Sampler) -> Window | None:
        sampler.pace(SLOW_S)
        window = self._read(self._seconds)
        sampler.pace(None)
        return window

    def _cool_down(self, temperature: Callable[[], float | None]) -> None:
        begun_s, cooling, limit_s = monotonic(), Cooling(self._power), self._power.start_wait_s
        while (
            (now_c := temperature()) is not None
            and not (cool := cooling.reached(monotonic(), now_c))
            and monotonic() - begun_s < limit_s
        ):
            self._waiting("cool")
            sleep(_LOOK_S)
        self._start["start_waited_s"] = monotonic() - begun_s
        if now_c is None:
            text = "No device tells its temperature: the run did not wait for a cool start."
            self._notes.append({"code": "temperature_unknown", "text": text})
        elif not cool:
            text = (
                f"After {limit_s:.0f} s the hottest GPU was still at {now_c:.0f} °C, warmer than asked for: the run "
                "began all the same. Wait longer (start_wait_s), or look after cooling."
            )
            self._notes.append({"code": "start_too_warm", "text": text})


def with_idle(samples: pa.Table, power: dict[str, Any]) -> dict[str, Any]:
    """The account of power with what these samples say of its ``idle_windows_ns``, in the place of what was said."""
    windows = {} if power.get("fault") else power.get("idle_windows_ns") or {}
    before_w, after_w = (
        mean_power_w(samples, *window, description=power) if (window := windows.get(name)) else None
        for name in ("before", "after")
    )
    observer = observer_effect(samples, windows, power["devices"])
    observer_w = None if observer is None else observer.watts
    said = [note for note in power["notes"] if note["code"] not in ("idle_drift", "observer_effect")]
    return power | {
        "idle_w": before_w,
        "idle_mark": power["mark"] if before_w is not None else None,
        "idle_after_w": after_w,
        "idle_bounds_w": _bounds_w(samples, windows, power, after_w) if before_w is not None else None,
        "observer_w": observer_w,
        "observer_bounds_w": None if observer is None else observer.bounds_w,
        "notes": [*said, *_drift_note(before_w, after_w), *_observer_note(observer, before_w)],
    }


def _bounds_w(
    samples: pa.Table, windows: dict[str, Window], power: dict[str, Any], after_w: float | None
) -> tuple[float, float] | None:
    """Between these the idle power of the run lies: what the instruments allow before it, and what was read after."""
    bounds = power_bounds_w(samples, *windows["before"], description=power)
    return bounds and (min(bounds[0], after_w or bounds[0]), max(bounds[1], after_w or bounds[1]))


class Cooling:
    """Whether a card is cool enough to start: below the bound, or no longer cooling by more than the other one."""

    def __init__(self, power: Power) -> None:
        self._below_c = power.start_below_c
        self._steady_c_per_min = power.start_steady_c_per_min
        self._seen: deque[tuple[float, float]] = deque()

    def reached(self, now_s: float, temperature_c: float) -> bool:
        self._seen.append((now_s, temperature_c))
        while now_s - self._seen[0][0] > COOLING_S:
            self._seen.popleft()
        if self._below_c is not None and temperature_c < self._below_c:
            return True
        began_s, began_c = self._seen[0]
        if self._steady_c_per_min is None or now_s - began_s < 0.9 * COOLING_S:
            return False
        return (began_c - temperature_c) / (now_s - began_s) * 60 < self._steady_c_per_min


def _drift_note(before_w: float | None, after_w: float | None) -> list[dict[str, str]]:
    if before_w is None or after_w is None or abs(after_w - before_w) <= max(_DRIFT[0], _DRIFT[1] * before_w):
        return []
    text = (
        f"Idle power was {before_w:.1f} W before the load and {after_w:.1f} W after it: something else changed "
        "meanwhile, or the card is still warm. Figures that leave idle power out carry that difference."
    )
    return [{"code": "idle_drift", "text": text}]


def _observer_note(observer: Observer | None, idle_w: float | None) -> list[dict[str, str]]:
    """Where it is large, and not only by chance."""
    if observer is None or observer.watts <= max(_OBSERVER[0], _OBSERVER[1] * (idle_w or 0.0)):
        return []
    if observer.bounds_w is not None and observer.bounds_w[0] <= 0:
        return []
    text = (
        f"Reading the instruments costs {observer.watts:.1f} W itself: idle power without the sampler is lower by that."
    )
    return [{"code": "observer_effect", "text": text}]
