"""Power instruments that have to be told where they are, and each one's form on the command line.

The form is KIND:PLACE,name=value,...; names and passwords are given by the environment variables that hold them. A
PromQL query stands last, so that it may hold commas.
"""

import dataclasses
import re
import typing
from dataclasses import dataclass
from typing import Literal
from zoneinfo import available_timezones

from runners.power.devices import Layer
from runners.power.units import UNITS

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUERY = ",query="


@dataclass(frozen=True)
class Web:
    """An instrument that answers over HTTP. ``user_env`` and ``password_env`` name the variables for basic
    authentication, ``token_env`` the one of a bearer token; ``ca_file`` replaces the system's authorities.
    """

    url: str = ""
    ca_file: str = ""
    user_env: str = ""
    password_env: str = ""
    token_env: str = ""


@dataclass(frozen=True)
class Exporter(Web):
    """``host``: only GPUs whose host label is this. ``gpus``: only these, indexes or ids joined by "+"."""

    host: str = ""
    gpus: str = ""


@dataclass(frozen=True)
class Dcgm(Exporter):
    kind: Literal["dcgm"] = "dcgm"


@dataclass(frozen=True)
class AmdExporter(Exporter):
    kind: Literal["amd-exporter"] = "amd-exporter"


@dataclass(frozen=True)
class Prometheus(Web):
    """Each series of ``query`` is a device of ``layer``; asked for when the run is over, a point every ``step_s``."""

    query: str = ""
    unit: str = "W"
    layer: Layer = Layer.ACCELERATOR
    step_s: float = 1.0
    kind: Literal["prometheus"] = "prometheus"


@dataclass(frozen=True)
class Redfish(Web):
    """``chassis``: the one to read, by its Id. ``session``: log in once for a token. ``update_s``: how often the
    controller has a new value.
    """

    chassis: str = ""
    session: bool = False
    update_s: float = 2.0
    kind: Literal["redfish"] = "redfish"


@dataclass(frozen=True)
class JsonMeter(Web):
    """``pointer`` (RFC 6901) names the number in the answer, power or a running energy counter by its ``unit``."""

    pointer: str = ""
    unit: str = "W"
    scale: float = 1.0
    layer: Layer = Layer.HOST
    update_s: float = 1.0
    kind: Literal["meter"] = "meter"


@dataclass(frozen=True)
class SmiLog:
    """What ``nvidia-smi --query-gpu=timestamp,uuid,power.draw --format=csv -lms 100`` wrote; its times are local to
    ``zone``.
    """

    file: str = ""
    zone: str = ""
    kind: Literal["csv"] = "csv"


@dataclass(frozen=True)
class GpuModel:
    """``tdp_w`` at full use and ``idle_w`` at none, of each GPU."""

    tdp_w: float | None = None
    idle_w: float = 0.0
    kind: Literal["gpu-model"] = "gpu-model"


Meter = Dcgm | AmdExporter | Prometheus | Redfish | JsonMeter | SmiLog | GpuModel
KINDS: dict[str, type[Meter]] = {kind.kind: kind for kind in typing.get_args(Meter)}
#: What stands behind the colon.
_PLACES = {"csv": "file", "gpu-model": "tdp_w"}

EXAMPLES = {
    "dcgm": "dcgm:http://gpu-1:9400/metrics",
    "amd-exporter": "amd-exporter:http://gpu-1:5000/metrics",
    "prometheus": 'prometheus:http://prom:9090,step_s=5,query=DCGM_FI_DEV_POWER_USAGE{Hostname="gpu-1"}',
    "redfish": "redfish:https://bmc-1,user_env=BMC_USER,password_env=BMC_PASSWORD",
    "meter": "meter:http://plug-1/rpc/Switch.GetStatus?id=0,pointer=/apower",
    "csv": "csv:power.csv,zone=Europe/Berlin",
    "gpu-model": "gpu-model:700",
}


def parse_meter(text: str) -> Meter:
    """Raises ValueError that says what to write."""
    kind, _, rest = text.partition(":")
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is not one of {', '.join(KINDS)}; write it as {EXAMPLES['dcgm']}")
    rest, has_query, query = rest.partition(_QUERY)
    place, *parts = rest.split(",")
    named = {_PLACES.get(kind, "url"): place} if place else {}
    for part in parts:
        name, _, value = part.partition("=")
        named[name] = value
    if has_query:
        named["query"] = query
    hints = typing.get_type_hints(KINDS[kind])
    fields = [field for field in hints if field != "kind"]
    unknown = [name for name in named if name not in fields]
    if unknown:
        raise ValueError(f"{kind}: no option {unknown[0]!r}; known are {', '.join(fields)}, as in {EXAMPLES[kind]}")
    return KINDS[kind](**{name: _value(f"{kind}: {name}", hints[name], value) for name, value in named.items()})


def _value(name: str, hint: typing.Any, text: str) -> typing.Any:
    try:
        if hint is bool:
            return {"yes": True, "no": False}[text]
        return Layer(text) if hint is Layer else text if hint is str else float(text)
    except (KeyError, ValueError):
        wanted = "yes or no" if hint is bool else f"one of {', '.join(Layer)}" if hint is Layer else "a number"
        raise ValueError(f"{name}: {text!r} is not {wanted}") from None


def meter_text(meter: Meter) -> str:
    """What ``parse_meter`` reads as the same meter; options at their defaults are left out."""
    place = _PLACES.get(meter.kind, "url")
    usual = type(meter)()
    options = [
        (field.name, getattr(meter, field.name))
        for field in dataclasses.fields(meter)
        if field.name not in (place, "kind") and getattr(meter, field.name) != getattr(usual, field.name)
    ]
    options.sort(key=lambda option: option[0] == "query")
    words = [f"{name}={_text(value)}" for name, value in options]
    return ",".join([f"{meter.kind}:{_text(getattr(meter, place))}", *words])


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def complaint(meter: Meter) -> tuple[str, str] | None:
    """The first field that cannot be used, and what it must be; None for a meter that can be asked."""
    found = _web_complaint(meter) if isinstance(meter, Web) else None
    if found:
        return found
    for name in ("step_s", "update_s", "tdp_w"):
        seconds = getattr(meter, name, None)
        if seconds is not None and not 0 < seconds < 1e5:
            return name, "above 0"
    unit = getattr(meter, "unit", "W")
    if unit not in UNITS:
        return "unit", f"{unit!r} is not one of {', '.join(UNITS)}"
    if isinstance(meter, Prometheus) and not meter.query:
        return "query", "the PromQL of the power, such as DCGM_FI_DEV_POWER_USAGE"
    if isinstance(meter, JsonMeter) and (not meter.pointer.startswith("/") or meter.scale == 0):
        return "pointer", "a JSON pointer to the number, such as /apower or /StatusSNS/ENERGY/Power; scale not 0"
    if isinstance(meter, GpuModel) and not 0 <= meter.idle_w <= (meter.tdp_w or meter.idle_w):
        return "idle_w", "0 or more, and at most tdp_w"
    return _log_complaint(meter) if isinstance(meter, SmiLog) else None


def _web_complaint(meter: Web) -> tuple[str, str] | None:
    if not meter.url.startswith(("http://", "https://")):
        return "url", "must start with http:// or https://"
    if meter.ca_file and not meter.url.startswith("https://"):
        return "ca_file", "only https:// addresses use it"
    for name in ("user_env", "password_env", "token_env"):
        variable = getattr(meter, name)
        if variable and not _VARIABLE.fullmatch(variable):
            return name, "the name of an environment variable, never the secret itself"
    if bool(meter.user_env) != bool(meter.password_env):
        return "password_env", "give user_env and password_env together"
    return None


def _log_complaint(meter: SmiLog) -> tuple[str, str] | None:
    if not meter.file:
        return "file", "the CSV file that nvidia-smi wrote"
    if meter.zone not in available_timezones():
        return "zone", "the time zone of the log's times, such as UTC or Europe/Berlin: the file does not say it"
    return None
