"""Power that a Prometheus server has kept, asked for when the time to be known has passed."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import Any
from urllib.parse import quote

from runners.meters import Prometheus
from runners.metrics import Mark
from runners.power.devices import Device, Note, SourceError
from runners.power.polling import Cadence
from runners.power.samples import Row
from runners.power.units import POWER_TO_MW, column_and_factor
from runners.power.web import Pages, WebError

_GAIN_ERROR = 0.05
#: Prometheus refuses more than 11 000 points of a series in one answer.
_POINTS = 10_000
_LOOK_BACK_S = 300.0
_NS = 1_000_000_000
_MOST_W = 1e6
_RISING_POINTS = 10
_COUNTER_FROM_W = 1e5
#: Labels that name a device, the most telling first, and those that name its model.
_IDS = ("UUID", "uuid", "serial_number", "gpu_uuid", "gpu", "gpu_id", "device", "chassis", "instance", "Hostname")
_MODELS = ("modelName", "card_model", "model", "name")

_Points = list[tuple[float, float]]


@dataclass(frozen=True)
class _Series:
    labels: Mapping[str, str]
    points: _Points

    @property
    def id(self) -> str:
        named = [self.labels[name] for name in _IDS if self.labels.get(name)]
        return "/".join(named[:3]) or "query"


class PrometheusSource:
    """``offset_ns``: time since 1970 less CLOCK_MONOTONIC of the host whose samples these join."""

    name = "prometheus"
    period_ms = 1e3

    def __init__(self, meter: Prometheus, offset_ns: int) -> None:
        self.notes: list[Note] = []
        self._meter, self._offset_ns = meter, offset_ns
        self._pages = Pages(meter)
        self._column, self._factor = column_and_factor(meter.unit)
        self._devices: list[Device] | None = None

    def devices(self) -> list[Device]:
        """Those of the last span that was asked for; of the last minutes when none was yet."""
        if self._devices is None:
            now_ns = time.monotonic_ns()
            try:
                self.between(now_ns - int(_LOOK_BACK_S * _NS), now_ns)
            except SourceError as error:
                self._devices = []
                self.notes.append(Note("prometheus_no_data", str(error)))
        return self._devices or []

    def read(self) -> list[Row]:
        """Nothing: the server has its newest points later than they are taken."""
        return []

    def close(self) -> None:
        """Nothing is held open."""

    def between(self, start_ns: int, end_ns: int) -> list[Row]:
        start_s, end_s = ((t_ns + self._offset_ns) / _NS for t_ns in (start_ns, end_ns))
        try:
            found = self._series(self._meter.query, start_s, end_s)
            if not found:
                raise SourceError(self._no_data(start_s, end_s))
            stamps = self._stamps(start_s, end_s)
        except WebError as error:
            raise SourceError(f"prometheus: {error}") from None
        if len({one.id for one in found}) < len(found):
            raise SourceError(
                f"prometheus: several series of {self._meter.query} have the same {', '.join(_IDS)}: they cannot be "
                "told apart. Add them up by one of these, as in sum by (UUID) (...), or max by (UUID) for MIG repeats"
            )
        self.notes = []
        self._devices, rows = [], []
        for one in found:
            self._check(one)
            dated = _dated(one.points, stamps.get(one.id, {}))
            self._devices.append(self._device(one, dated))
            rows += [self._row(one.id, t_s, value) for t_s, value in dated]
        return sorted(rows, key=lambda row: row["t_ns"])

    def _stamps(self, start_s: float, end_s: float) -> dict[str, dict[float, float]]:
        """When the point behind each step was scraped; nothing where the query has no such time."""
        try:
            found = self._series(f"timestamp({self._meter.query})", start_s, end_s)
        except SourceError:
            return {}
        return {one.id: dict(one.points) for one in found}

    def _series(self, query: str, start_s: float, end_s: float) -> list[_Series]:
        """Raises WebError, SourceError for a query that the server refuses."""
        gathered: dict[str, _Series] = {}
        for first_s, last_s in _chunks(start_s, end_s, self._meter.step_s):
            for labels, points in self._ask(query, first_s, last_s):
                one = gathered.setdefault(str(sorted(labels.items())), _Series(labels, []))
                one.points.extend(points)
        return list(gathered.values())

    def _ask(self, query: str, start_s: float, end_s: float) -> Iterator[tuple[Mapping[str, str], _Points]]:
        arguments = f"query={quote(query, safe='')}&start={start_s:.3f}&end={end_s:.3f}&step={self._meter.step_s:g}"
        answer = self._pages.ask("GET", self._pages.under(f"/api/v1/query_range?{arguments}"))
        told = answer.json
        if isinstance(told, dict) and told.get("status") == "error":
            raise SourceError(f"prometheus refuses the query ({told.get('errorType')}): {told.get('error')}")
        if answer.status != 200 or not isinstance(told, dict):
            self._pages.get(self._pages.under(f"/api/v1/query_range?{arguments}"))  # its words for what is wrong
            raise WebError(f"{self._pages.url} is not a Prometheus server: it does not answer in its form.")
        data = told.get("data")
        if not isinstance(data, dict):
            raise WebError(f"{self._pages.url} is not a Prometheus server: it does not answer in its form.")
        if data.get("resultType") != "matrix":
            raise SourceError(f"prometheus: {query} gives a {data.get('resultType')}: ask for a series over time")
        for result in data.get("result") or []:
            try:
                yield result.get("metric") or {}, list(_points(result.get("values") or []))
            except (AttributeError, TypeError, ValueError):
                raise WebError(f"{self._pages.url} gives points that are no numbers: {str(result)[:80]}.") from None

    def _no_data(self, start_s: float, end_s: float) -> str:
        span = f"{_clock(start_s)} to {_clock(end_s)} UTC"
        return (
            f"prometheus: {self._meter.query} has no data from {span}: try it in the server's own page, and check that "
            "the clocks of both machines agree and that the server still keeps that time"
        )

    def _check(self, one: _Series) -> None:
        """Refuses what cannot be in the unit that was said. Raises SourceError."""
        if self._meter.unit not in POWER_TO_MW:
            return
        values = [value * self._factor / 1e3 for _, value in one.points]
        name = one.labels.get("__name__", "")
        rising = len(values) >= _RISING_POINTS and all(a < b for a, b in pairwise(values))
        if "energy" in name.lower() or "joule" in name.lower() or (rising and values[-1] > _COUNTER_FROM_W):
            raise SourceError(
                f"prometheus: {name or self._meter.query} is a running energy counter, not power in {self._meter.unit}"
                ": say unit=mJ, unit=J or what it counts, or ask for its rate"
            )
        if max(values) > _MOST_W or min(values) < 0:
            raise SourceError(
                f"prometheus: {name or self._meter.query} goes from {min(values):g} to {max(values):g} W when taken as "
                f"{self._meter.unit}: no device draws that. Is it in another unit, such as unit=mW?"
            )

    def _device(self, one: _Series, dated: _Points) -> Device:
        counter, cadence = self._column == "energy_mj", Cadence(1e3 * self._meter.step_s)
        for t_s, value in dated:
            cadence.see(int(t_s * _NS), value if counter else t_s)
        update_ms = max(1e3 * self._meter.step_s, cadence.update_ms)
        self._note_gaps(one, dated, update_ms)
        return Device(
            id=one.id,
            name=next((one.labels[name] for name in _MODELS if one.labels.get(name)), one.id),
            layer=self._meter.layer,
            source=self.name,
            mark=Mark.MEASURED,
            update_ms=update_ms,
            reading=f"Prometheus: {self._meter.query}" + ("" if counter else ", integrated"),
            gain_low=1 - _GAIN_ERROR,
            gain_high=1 + _GAIN_ERROR,
            gain_source="±5 % is assumed",
            counter=counter,
            power_column=None if counter else "power_mw",
        )

    def _note_gaps(self, one: _Series, dated: _Points, update_ms: float) -> None:
        gaps = [(a, b) for (a, _), (b, _) in pairwise(dated) if (b - a) * 1e3 > 3 * update_ms]
        if gaps:
            longest = max(gaps, key=lambda gap: gap[1] - gap[0])
            text = (
                f"{one.id}: {len(gaps)} gap(s) in what Prometheus kept, the longest {longest[1] - longest[0]:.0f} s "
                f"from {_clock(longest[0])} UTC: windows over it have no number."
            )
            self.notes.append(Note("prometheus_gaps", text))

    def _row(self, device: str, t_s: float, value: float) -> Row:
        t_ns = int(t_s * _NS) - self._offset_ns
        row: Row = {"t_ns": t_ns, "device": device, "layer": self._meter.layer.value}
        return row | {self._column: value * self._factor, "sensor_t_us": int(t_s * 1e6)}


def _chunks(start_s: float, end_s: float, step_s: float) -> Iterator[tuple[float, float]]:
    span_s = _POINTS * step_s
    while start_s < end_s:
        yield start_s, min(end_s, start_s + span_s - step_s)
        start_s += span_s


def _points(values: list[Any]) -> Iterator[tuple[float, float]]:
    for t_s, told in values:
        value = float(told)
        if isfinite(value):
            yield float(t_s), value


def _dated(points: _Points, stamps: Mapping[float, float]) -> _Points:
    """Each point once, when it was scraped. For five minutes a server repeats the last one at every step; of a query
    that reckons, the stamps are the steps themselves.
    """
    dated: dict[float, float] = {stamps.get(t_s, t_s): value for t_s, value in points}
    return sorted(dated.items())


def _clock(t_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(t_s))
