"""A power meter that answers in JSON over HTTP, such as a Shelly or Tasmota plug, or a PDU."""

import time
from dataclasses import replace
from math import isfinite
from typing import Any

from runners.meters import JsonMeter
from runners.metrics import Mark
from runners.power.devices import Device, Note
from runners.power.polling import Cadence, Poller
from runners.power.samples import Row
from runners.power.units import column_and_factor
from runners.power.web import Pages, WebError

_GAIN_ERROR = 0.02


class MeterSource:
    """One number of one page; the unit says whether it is power or a running energy counter."""

    name = "meter"

    def __init__(self, meter: JsonMeter) -> None:
        self.notes: list[Note] = []
        self.period_ms = min(1e3, 1e3 * meter.update_s)
        self._meter = meter
        self._pages = Pages(meter)
        self._column, self._factor = column_and_factor(meter.unit)
        self._cadence = Cadence(1e3 * meter.update_s)
        self._device: Device | None = None
        first = self._poll()
        if first:
            self._device = self._describe()
        self._poller = Poller(self._poll, self.period_ms / 1e3, first)

    def devices(self) -> list[Device]:
        """A counter's steps show how often it has a new value; steady power shows nothing."""
        if self._device is None:
            return []
        return [replace(self._device, update_ms=self._cadence.update_ms) if self._device.counter else self._device]

    def read(self) -> list[Row]:
        return self._poller.take() if self._device else []

    def close(self) -> None:
        self._poller.close()

    def _poll(self) -> list[Row]:
        before_ns = time.monotonic_ns()
        try:
            told = _number(resolve(self._pages.json(self._pages.path), self._meter.pointer))
        except (WebError, LookupError) as error:
            self._note_once(f"meter: {error.args[0]}")
            return []
        t_ns = (before_ns + time.monotonic_ns()) // 2
        value = told * self._meter.scale * self._factor
        self._cadence.see(t_ns, value)
        return [{"t_ns": t_ns, "device": self._id, "layer": self._meter.layer.value, self._column: value}]

    @property
    def _id(self) -> str:
        return f"meter-{self._pages.url}{self._meter.pointer}"

    def _describe(self) -> Device:
        counter = self._column == "energy_mj"
        return Device(
            id=self._id,
            name=f"Meter {self._pages.url.partition('://')[2]}",
            layer=self._meter.layer,
            source="meter",
            mark=Mark.MEASURED,
            update_ms=1e3 * self._meter.update_s,
            reading=f"{self._meter.pointer} in {self._meter.unit}" + ("" if counter else ", integrated"),
            gain_low=1 - _GAIN_ERROR,
            gain_high=1 + _GAIN_ERROR,
            gain_source="±2 % is assumed for a plug-in meter",
            counter=counter,
            power_column=None if counter else "power_mw",
        )

    def _note_once(self, text: str) -> None:
        if all(note.code != "meter_unreadable" for note in self.notes):
            self.notes.append(Note("meter_unreadable", text))


def resolve(data: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) names. Raises LookupError that says what is there instead."""
    found = data
    for raw in pointer.split("/")[1:]:
        name = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            there = ", ".join(map(str, found)) if isinstance(found, dict) else type(found).__name__
            raise LookupError(f"the answer has nothing at {pointer}: beside {name!r} there is {there}")
    return found


def _number(value: Any) -> float:
    """Plugs tell numbers as texts too. Raises LookupError for what is none: missing is not 0."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else float("nan")
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise LookupError(f"the pointer leads to {value!r}, which is not a number")
    return number
