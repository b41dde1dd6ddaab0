"""Power of the whole machine as its management controller tells it over Redfish.

The newer model (DSP2046: EnvironmentMetrics, PowerSubsystem with its supplies) is asked first, the older Power resource
after it. A chassis that lies in another one that is read would be counted twice, so it is left out.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any

from runners.meters import Redfish
from runners.metrics import Mark
from runners.power.devices import Device, Layer, Note
from runners.power.polling import Poller
from runners.power.samples import Row
from runners.power.web import Pages, WebError, secret

_ROOT = "/redfish/v1"
_GAIN_ERROR = 0.05
#: What the whole chassis is called among the entries of the older resource.
_WHOLE = (None, "Chassis", "Intake", "SystemBoard")


@dataclass(frozen=True)
class _Chassis:
    device: Device
    watts: Callable[[], float | None]


class RedfishSource:
    name = "redfish"

    def __init__(self, meter: Redfish) -> None:
        self.notes: list[Note] = []
        self.period_ms = min(1e3, 1e3 * meter.update_s)
        self._meter = meter
        self._pages = Pages(meter)
        self._session = ""
        self._chassis: list[_Chassis] = []
        first: list[Row] = []
        try:
            if meter.session:
                self._log_in()
            self._chassis = self._find()
            first = self._poll()
        except WebError as error:
            self._note_once("redfish_unreadable", f"redfish: {error}")
        self._poller = Poller(self._poll, meter.update_s, first)

    def devices(self) -> list[Device]:
        return [chassis.device for chassis in self._chassis]

    def read(self) -> list[Row]:
        return self._poller.take() if self._chassis else []

    def close(self) -> None:
        """Logs out, for a controller has room for few sessions."""
        self._poller.close()
        if self._session:
            with contextlib.suppress(WebError):
                self._pages.ask("DELETE", self._session)
            self._session = ""

    def _log_in(self) -> None:
        """Raises WebError."""
        account = {"UserName": secret(self._meter.user_env), "Password": secret(self._meter.password_env)}
        answer = self._pages.ask("POST", f"{_ROOT}/SessionService/Sessions", account)
        token = answer.headers.get(b"x-auth-token", b"").decode("latin-1")
        if answer.status not in (200, 201) or not token:
            names = f"{self._meter.user_env} and {self._meter.password_env}"
            raise WebError(f"{self._pages.url} opens no session ({answer.status}): check what {names} hold.")
        self._pages.token = token
        place = answer.headers.get(b"location", b"").decode("latin-1") or _link(answer.json)
        self._session = place.removeprefix(self._pages.url)

    def _find(self) -> list[_Chassis]:
        """Each chassis with a power reading that lies in no other such one. Raises WebError."""
        found: dict[str, tuple[Any, Callable[[], float | None], str]] = {}
        for path in self._members(f"{_ROOT}/Chassis"):
            chassis = self._pages.json(path)
            if self._meter.chassis and _get(chassis, "Id") != self._meter.chassis:
                continue
            reading = self._reading(chassis)
            if reading is not None:
                found[path.rstrip("/")] = (chassis, *reading)
        if not found:
            which = f" of the chassis {self._meter.chassis}" if self._meter.chassis else ""
            text = (
                f"redfish: {self._pages.url} shows no power reading{which}: does its own web page? Update its firmware."
            )
            self._note_once("redfish_no_power", text)
        outer = {path: made for path, made in found.items() if not self._lies_within(made[0], set(found))}
        if len(outer) < len(found):
            inner = ", ".join(str(_get(found[path][0], "Id")) for path in found if path not in outer)
            self._note_once("redfish_inner", f"Chassis inside another that is read, not added to it: {inner}.")
        return [_Chassis(self._device(*made[::2]), made[1]) for made in outer.values()]

    def _members(self, path: str) -> Iterator[str]:
        members = _get(self._pages.json(path), "Members")
        yield from (link for member in (members if isinstance(members, list) else []) if (link := _link(member)))

    def _lies_within(self, chassis: Any, read: set[str]) -> bool:
        return _link(_get(chassis, "Links", "ContainedBy")).rstrip("/") in read

    def _reading(self, chassis: Any) -> tuple[Callable[[], float | None], str] | None:
        """How this chassis tells its power, and the words for it; None when it does not."""
        ways = (
            (_link(_get(chassis, "EnvironmentMetrics")), self._environment_w, "EnvironmentMetrics PowerWatts"),
            (_link(_get(chassis, "PowerSubsystem")), self._supplies_w, "PowerSubsystem input of its supplies"),
            (_link(_get(chassis, "Power")), self._control_w, "Power PowerConsumedWatts"),
        )
        for path, watts, words in ways:
            if path and self._quietly(watts, path) is not None:
                return (lambda watts=watts, path=path: watts(path)), words
        return None

    def _quietly(self, watts: Callable[[str], float | None], path: str) -> float | None:
        """A way that is not there is no fault while another may be."""
        try:
            return watts(path)
        except WebError:
            return None

    def _environment_w(self, path: str) -> float | None:
        return _watts(_get(self._pages.json(path), "PowerWatts", "Reading"))

    def _supplies_w(self, path: str) -> float | None:
        """Input of all supplies; None when one of those that are there tells none."""
        total: float | None = None
        for member in self._members(_link(_get(self._pages.json(path), "PowerSupplies")) or f"{path}/PowerSupplies"):
            metrics = _link(_get(self._pages.json(member), "Metrics"))
            one = _watts(_get(self._pages.json(metrics), "InputPowerWatts", "Reading")) if metrics else None
            if one is None:
                return None
            total = (total or 0.0) + one
        return total

    def _control_w(self, path: str) -> float | None:
        entries = _get(self._pages.json(path), "PowerControl")
        whole = [entry for entry in entries or [] if _get(entry, "PhysicalContext") in _WHOLE]
        return _watts(_get(whole[0], "PowerConsumedWatts")) if whole else None

    def _device(self, chassis: Any, words: str) -> Device:
        key = _get(chassis, "Id")
        name = " ".join(str(part) for part in (_get(chassis, "Manufacturer"), _get(chassis, "Model")) if part)
        return Device(
            id=f"redfish-{self._pages.url}/{key}",
            name=name or f"Chassis {key}",
            layer=Layer.HOST,
            source="redfish",
            mark=Mark.MEASURED,
            update_ms=1e3 * self._meter.update_s,
            reading=f"Redfish {words}, integrated",
            gain_low=1 - _GAIN_ERROR,
            gain_high=1 + _GAIN_ERROR,
            gain_source="±5 % is assumed for power supplies' own meters",
            counter=False,
            power_column="power_mw",
        )

    def _poll(self) -> list[Row]:
        rows: list[Row] = []
        for chassis in self._chassis:
            before_ns = time.monotonic_ns()
            try:
                watts = chassis.watts()
            except WebError as error:
                self._note_once("redfish_unreadable", f"redfish: {error}")
                continue
            t_ns = (before_ns + time.monotonic_ns()) // 2
            if watts is not None:
                row: Row = {"t_ns": t_ns, "device": chassis.device.id, "layer": Layer.HOST.value}
                rows.append(row | {"power_mw": watts * 1e3})
        return rows

    def _note_once(self, code: str, text: str) -> None:
        if all(note.code != code for note in self.notes):
            self.notes.append(Note(code, text))


def _get(data: Any, *names: str) -> Any:
    """None where the way ends early: controllers leave out what they do not know, and put null."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data


def _link(resource: Any) -> str:
    found = _get(resource, "@odata.id")
    return found if isinstance(found, str) else ""


def _watts(value: Any) -> float | None:
    """None for null and for what is no number; controllers tell 0 while they have no reading yet."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value > 0
    return float(value) if known else None
