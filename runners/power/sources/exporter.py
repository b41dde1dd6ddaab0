"""GPUs of another machine through an exporter's metrics page, read once a second; ``dcgm`` and ``amd_exporter`` say
how their pages are written.
"""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

from runners.meters import Exporter
from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.polling import Cadence, Poller
from runners.power.samples import Row
from runners.power.sources.nvml_sensors import grace_name
from runners.power.web import Pages, WebError
from runners.server.exposition import ExpositionError, Sample, labels_of, samples

_PERIOD_S = 1.0
_GAIN_ERROR = 0.05
#: DCGM's mark for "no value" as a float; no reading comes near it.
_BLANK = 1e14


@dataclass(frozen=True)
class Form:
    """How one exporter writes. ``columns``: column of samples -> metric names, the first that is there counts, and the
    factor to the column's unit. ``ids``: labels that name a board, the first that is there counts. ``part``: the label
    of a slice of a board; slices repeat the whole board's numbers. ``assumed_update_ms``: its own default, until the
    page shows how often it changes. ``not_counted``: metrics that are there and mislead, with the words.
    """

    name: str
    columns: Mapping[str, tuple[tuple[str, ...], float]]
    ids: tuple[str, ...]
    label: str
    host: str
    index: str
    part: str
    power_window_ms: float
    assumed_update_ms: float
    how: str
    not_counted: Mapping[str, Note] = field(default_factory=dict)

    @property
    def metrics(self) -> frozenset[str]:
        return frozenset(name for names, _ in self.columns.values() for name in names) | frozenset(self.not_counted)


@dataclass
class _Board:
    device: Device
    cadence: Cadence


class ExporterSource:
    """Each board once, however many slices of it the page lists."""

    period_ms = 1e3 * _PERIOD_S

    def __init__(self, form: Form, meter: Exporter) -> None:
        self.name = form.name
        self.notes: list[Note] = []
        self._form, self._meter = form, meter
        self._pages = Pages(meter)
        self._boards: dict[str, _Board] = {}
        first = self._poll(opening=True)
        self._poller = Poller(self._poll, _PERIOD_S, first)

    def devices(self) -> list[Device]:
        return [replace(board.device, update_ms=board.cadence.update_ms) for board in self._boards.values()]

    def read(self) -> list[Row]:
        return self._poller.take() if self._boards else []

    def close(self) -> None:
        self._poller.close()

    def _poll(self, opening: bool = False) -> list[Row]:
        before_ns = time.monotonic_ns()
        try:
            page = self._pages.get(self._pages.path).text
            found = [sample for sample in samples(page, self._form.metrics) if _usable(sample)]
        except (WebError, ExpositionError) as error:
            self._note_once(f"{self.name}_unreadable", f"{self.name}: {error}")
            return []
        t_ns = (before_ns + time.monotonic_ns()) // 2
        boards = self._by_board(found)
        if opening:
            self._open(boards, found)
        rows = [self._row(key, t_ns, board) for key, board in boards.items() if key in self._boards]
        self._note_missing(boards)
        return rows

    def _by_board(self, found: Iterable[Sample]) -> dict[str, list[tuple[Sample, Mapping[str, str]]]]:
        """Samples of each board that is ours."""
        boards: dict[str, list[tuple[Sample, Mapping[str, str]]]] = {}
        for sample in found:
            labels = labels_of(sample.labels)
            key = self._key(labels)
            if key and sample.name not in self._form.not_counted and self._wanted(labels, key):
                boards.setdefault(key, []).append((sample, labels))
        return boards

    def _key(self, labels: Mapping[str, str]) -> str:
        label = next((name for name in self._form.ids if labels.get(name)), "")
        if label in ("", self._form.ids[0]):
            return labels.get(label, "")
        return f"{labels.get(self._form.host, '')}/{labels[label]}"

    def _wanted(self, labels: Mapping[str, str], key: str) -> bool:
        if self._meter.host and labels.get(self._form.host) != self._meter.host:
            return False
        wanted = self._meter.gpus.split("+") if self._meter.gpus else []
        return (
            not wanted
            or labels.get(self._form.index) in wanted
            or any(len(prefix) > 3 and key.lower().startswith(prefix.lower()) for prefix in wanted)
        )

    def _open(self, boards: Mapping[str, list[tuple[Sample, Mapping[str, str]]]], found: list[Sample]) -> None:
        for name, note in self._form.not_counted.items():
            if any(sample.name == name for sample in found):
                self.notes.append(note)
        for key, board in boards.items():
            device = self._device(key, board)
            if device is not None:
                self._boards[key] = _Board(device, Cadence(self._form.assumed_update_ms))
        if self._boards:
            assumed_s = self._form.assumed_update_ms / 1e3
            text = (
                f"{self.name}: an update every {assumed_s:g} s is assumed until the page shows how often it changes; a "
                f"window needs 20 updates. {self._form.how}"
            )
            self.notes.append(Note("exporter_update", text))
            return
        asked = f" that fit host={self._meter.host or 'any'}, gpus={self._meter.gpus or 'all'}"
        text = f"{self.name}: {self._pages.url} shows no power or energy of GPUs{asked}. {self._form.how}"
        self.notes.append(Note(f"{self.name}_missing", text))

    def _device(self, key: str, board: list[tuple[Sample, Mapping[str, str]]]) -> Device | None:
        names = {sample.name for sample, _ in board}
        labels = board[0][1]
        power, energy = (self._first(column, names) for column in ("power_mw", "energy_mj"))
        if not power and not energy:
            return None
        label = labels.get(self._form.label, "GPU")
        counter = bool(energy) and not grace_name(label)  # there the counter is that of the whole module
        return Device(
            id=key,
            name=label,
            layer=Layer.ACCELERATOR,
            source=self.name,
            mark=Mark.MEASURED,
            update_ms=self._form.assumed_update_ms,
            reading=f"{energy}, checked by {power}"
            if counter and power
            else energy
            if counter
            else f"{power}, integrated",
            gain_low=1 - _GAIN_ERROR,
            gain_high=1 + _GAIN_ERROR,
            gain_source="±5 % board gain error is assumed",
            counter=counter,
            power_column="power_mw" if power else None,
            power_window_ms=self._form.power_window_ms,
            facts={"index": labels.get(self._form.index), "machine": labels.get(self._form.host)},
            shared=bool({labels.get(self._form.part, "") for _, labels in board} - {"", "0"}),
        )

    def _first(self, column: str, names: Iterable[str]) -> str:
        return next((name for name in self._form.columns[column][0] if name in names), "")

    def _row(self, key: str, t_ns: int, board: list[tuple[Sample, Mapping[str, str]]]) -> Row:
        names = {sample.name for sample, _ in board}
        row: Row = {"t_ns": t_ns, "device": key, "layer": Layer.ACCELERATOR.value}
        for column, (_, factor) in self._form.columns.items():
            metric = self._first(column, names)
            of_metric = [sample for sample, _ in board if sample.name == metric]
            if of_metric:
                row[column] = max(sample.value for sample in of_metric) * factor
                stamps = [sample.stamp_ms for sample in of_metric if sample.stamp_ms is not None]
                if stamps and column in ("power_mw", "energy_mj"):
                    row["sensor_t_us"] = max(stamps) * 1000
        seen = row.get("energy_mj", row.get("power_mw"))
        self._boards[key].cadence.see(t_ns, row.get("sensor_t_us", seen))
        return row

    def _note_missing(self, boards: Mapping[str, object]) -> None:
        for key, board in self._boards.items():
            if key not in boards:
                self._note_once("gpu_gone", f"{board.device.name} ({key}) is no longer on the page of {self.name}.")

    def _note_once(self, code: str, text: str) -> None:
        if Note(code, text) not in self.notes:
            self.notes.append(Note(code, text))


def _usable(sample: Sample) -> bool:
    return isfinite(sample.value) and (sample.value < _BLANK or "ENERGY" in sample.name.upper())
