"""What a run is asked to do: frozen dataclasses, versioned JSON in and out.

A specification never holds a secret: ``api_key_env`` names the environment variable that does.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from runners.sources import (
    MAX_INPUT_TOKENS,
    MAX_OUTPUT_TOKENS,
    Source,
    Synthetic,
    Tokens,
    Trace,
    length_complaint,
    source_complaint,
)

SPEC_VERSION = 1


class SpecError(ValueError):
    """The specification cannot be run; the message names the field and the fix."""


class Dialect(StrEnum):
    OPENAI_CHAT = "openai-chat"
    OPENAI_COMPLETIONS = "openai-completions"


class Arrivals(StrEnum):
    """``closed``: so many requests in flight at all times; the others send on a schedule, whatever comes back.

    ``gamma`` has gaps of a stated coefficient of variation; ``replay`` takes the times of a trace.
    """

    CLOSED = "closed"
    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    REPLAY = "replay"


@dataclass(frozen=True)
class Target:
    url: str
    model: str = ""
    dialect: Dialect = Dialect.OPENAI_CHAT
    api_key_env: str = ""


@dataclass(frozen=True)
class Workload:
    """Prompts of a stated token length, unique per request and run; ``tokenizer`` is a tokenizer.json, else the
    endpoint's own tokenizer or its usage counts set the length. ``source`` says what they are made of. ``input_sweep``:
    prompt lengths that take the place of ``input_tokens`` one after the other, a stage each at one load.
    """

    input_tokens: Tokens = 128
    output_tokens: Tokens = 128
    seed: int = 0
    ignore_eos: bool = True
    temperature: float = 0.0
    tokenizer: str = ""
    source: Source = field(default_factory=Synthetic)
    input_sweep: tuple[int, ...] = ()


class Goal(StrEnum):
    SLO = "slo"
    SATURATION = "saturation"


@dataclass(frozen=True)
class Search:
    """Stages follow each other until an answer is found, at most ``max_stages``.

    slo          the highest load at which ``share`` of the planned requests meet the SLO; the load that passes and the
                 one that fails end up within ``tolerance`` of each other
    saturation   the load beyond which throughput no longer rises although the queue does
    """

    goal: Goal
    share: float = 0.95
    tolerance: float = 0.1
    max_stages: int = 16


@dataclass(frozen=True)
class Load:
    """``levels`` are concurrencies (closed), requests per second (constant, poisson, gamma) or speeds (replay: 2 is
    twice as fast as recorded); each becomes a stage. Where requests wait for each other, conversations are counted
    instead of requests. With a ``search`` they are where it starts and, if given, the most that it tries.

    A stage sends until ``requests`` were sent or ``duration_s`` has passed, whichever comes first, warm-up and
    cool-down not counted; these are load that is not measured. ``cv``: standard deviation / mean of gamma gaps.
    ``ramp_from``: the load rises from there to the level while the stage lasts. ``repeats``: all levels are run so
    often, in turn.
    ``calibrate_s``: how long the client's own error is measured at each level beforehand; 0 leaves it unknown.
    """

    arrivals: Arrivals = Arrivals.CLOSED
    levels: tuple[float, ...] = (1.0,)
    requests: int | None = None
    duration_s: float | None = None
    warmup_s: float = 0.0
    cooldown_s: float = 0.0
    cv: float = 1.0
    ramp_from: float | None = None
    repeats: int = 1
    search: Search | None = None
    drain_s: float = 60.0
    max_in_flight: int = 4096
    calibrate_s: float = 1.0


@dataclass(frozen=True)
class Slo:
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None

    def bounds(self) -> dict[str, float]:
        """Metric key -> bound, only those that are set."""
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


@dataclass(frozen=True)
class Timeouts:
    connect_s: float = 10.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0
    total_s: float = 600.0


@dataclass(frozen=True)
class Power:
    """``source``: auto, none, nvml, rapl or estimate. ``idle_s``: how long idle power is read before the first stage.

    The CPU watts feed the modelled source only; missing means its published defaults.
    """

    source: str = "auto"
    idle_s: float = 3.0
    cpu_idle_w: float | None = None
    cpu_max_w: float | None = None


@dataclass(frozen=True)
class Account:
    """What turns seconds and joules into money and facility energy; missing stays missing in every result."""

    usd_per_hour: float | None = None
    price_source: str = ""
    pue: float | None = None
    pue_source: str = ""


@dataclass(frozen=True)
class RunSpec:
    target: Target
    workload: Workload = field(default_factory=Workload)
    load: Load = field(default_factory=Load)
    slo: Slo = field(default_factory=Slo)
    timeouts: Timeouts = field(default_factory=Timeouts)
    power: Power = field(default_factory=Power)
    account: Account = field(default_factory=Account)
    salt: str = ""
    version: int = SPEC_VERSION

    def __post_init__(self) -> None:
        _check(self)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready; ``from_json`` gives the same specification back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Raises SpecError that names the field and what it must be."""
        spec = _build(cls, data, "spec")
        assert isinstance(spec, cls)  # noqa: S101
        return spec


_MAX_REPEATS = 30


def _check(spec: RunSpec) -> None:
    if spec.version != SPEC_VERSION:
        raise SpecError(f"version: {spec.version} is not known here; this is version {SPEC_VERSION}")
    if not spec.target.url.startswith(("http://", "https://")):
        raise SpecError(f"target.url: {spec.target.url!r} must start with http:// or https://")
    _check_workload(spec.workload)
    _check_load(spec.load)
    _check_phases(spec.load)
    _check_together(spec)
    for name, bound in spec.slo.bounds().items():
        if not bound > 0:
            raise SpecError(f"slo.{name}: above 0 milliseconds, or leave it out")
    for name, seconds in dataclasses.asdict(spec.timeouts).items():
        if not seconds > 0:
            raise SpecError(f"timeouts.{name}: above 0 seconds")
    if spec.account.pue is not None and not 1 <= spec.account.pue <= 5:
        raise SpecError("account.pue: between 1 and 5 (1.09 is Google's fleet, 1.5 a usual server room)")
    if spec.account.usd_per_hour is not None and spec.account.usd_per_hour < 0:
        raise SpecError("account.usd_per_hour: 0 or more, or leave it out when unknown")


def _check_workload(workload: Workload) -> None:
    if complaint := length_complaint(workload.input_tokens, MAX_INPUT_TOKENS):
        raise SpecError(f"workload.input_tokens: {complaint}")
    if complaint := length_complaint(workload.output_tokens, MAX_OUTPUT_TOKENS):
        raise SpecError(f"workload.output_tokens: {complaint}")
    for number, tokens in enumerate(workload.input_sweep):
        if complaint := length_complaint(tokens, MAX_INPUT_TOKENS):
            raise SpecError(f"workload.input_sweep[{number}]: {complaint}")
    shortest = min(workload.input_sweep, default=workload.input_tokens)
    if found := source_complaint(workload.source, shortest):
        raise SpecError(f"workload.source.{found[0]}: {found[1]}")


def _check_load(load: Load) -> None:
    if not load.levels or any(not 0 < level < float("inf") for level in load.levels):
        raise SpecError("load.levels: give at least one level, each above 0, such as 1,4,16")
    if load.arrivals is Arrivals.CLOSED and any(level != int(level) for level in load.levels):
        raise SpecError("load.levels: concurrency is a whole number of requests in flight, such as 1,4,16")
    if load.requests is None and load.duration_s is None and load.arrivals is not Arrivals.REPLAY:
        raise SpecError("load: say when a stage ends: a number of requests or a duration in seconds")
    if load.requests is not None and load.requests < 1:
        raise SpecError("load.requests: at least 1")
    if load.duration_s is not None and not 0 < load.duration_s <= 86_400:
        raise SpecError("load.duration_s: above 0 and at most 86400 (a day)")
    if max(load.levels) > load.max_in_flight and load.arrivals is Arrivals.CLOSED:
        raise SpecError(
            f"load.levels: a concurrency above load.max_in_flight ({load.max_in_flight}) can never be reached"
        )
    if not 0 < load.cv <= 100:
        raise SpecError("load.cv: above 0 and at most 100; 1 is as random as poisson, 2 is bursty")
    if not 1 <= load.repeats <= _MAX_REPEATS:
        raise SpecError(f"load.repeats: between 1 and {_MAX_REPEATS}")


def _check_phases(load: Load) -> None:
    for name in ("warmup_s", "cooldown_s"):
        if not 0 <= getattr(load, name) <= 3_600:
            raise SpecError(f"load.{name}: between 0 and 3600 seconds")
    if not 0 <= load.calibrate_s <= 60:
        raise SpecError("load.calibrate_s: between 0 (none) and 60 seconds a level")
    if load.ramp_from is None:
        return
    if load.duration_s is None or load.arrivals is Arrivals.REPLAY:
        raise SpecError("load.ramp_from: a ramp needs load.duration_s, and a trace's times cannot be ramped")
    if not 0 < load.ramp_from < min(load.levels):
        raise SpecError("load.ramp_from: above 0 and below every level: the load rises from there to the level")


def _check_together(spec: RunSpec) -> None:
    load, workload, search = spec.load, spec.workload, spec.load.search
    if load.arrivals is Arrivals.REPLAY and not isinstance(workload.source, Trace):
        raise SpecError(
            'load.arrivals: replay takes its times from a trace: set workload.source to one ("kind": "trace")'
        )
    if workload.input_sweep and (len(load.levels) != 1 or search):
        raise SpecError("workload.input_sweep: the levels of a length sweep are its lengths: give one load, no search")
    if search is None:
        return
    if search.goal is Goal.SLO and not spec.slo.bounds():
        raise SpecError("load.search: say which SLO is to be met: set slo.ttft_ms, slo.tpot_ms or slo.e2e_ms")
    if not 0.5 <= search.share < 1 or not 0 < search.tolerance <= 1:
        raise SpecError("load.search: share from 0.5 to below 1, tolerance above 0 and at most 1")
    if not 2 <= search.max_stages <= 100:
        raise SpecError("load.search.max_stages: between 2 and 100")
    if len(load.levels) > 2 or load.levels[0] > load.levels[-1]:
        raise SpecError("load.levels: a search takes where it starts and, if you like, the most that it tries: 1,256")
    if load.repeats > 1 or load.ramp_from is not None or load.arrivals is Arrivals.REPLAY:
        raise SpecError("load.search: a search has no repeats and no ramp, and cannot replay a trace")


def _build(kind: Any, data: Any, path: str) -> Any:
    """``data`` as the annotated type ``kind``; strict, so that a typo is an error and not a default."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _build_union(typing.get_args(kind), data, path)
    if origin is typing.Literal:
        return data
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise SpecError(f"{path}: must be a list")
        return tuple(_build(typing.get_args(kind)[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast(type[Any], kind), data, path)
    return _build_scalar(kind, data, path)


def _build_union(options: tuple[Any, ...], data: Any, path: str) -> Any:
    """Null where it is allowed; an object for the dataclasses, told apart by their ``kind``; else the plain type."""
    if data is None and type(None) in options:
        return None
    objects = [option for option in options if dataclasses.is_dataclass(option)]
    plain = [option for option in options if option not in objects and option is not type(None)]
    if plain and not (objects and isinstance(data, dict)):
        return _build(plain[0], data, path)
    if len(objects) == 1:
        return _build(objects[0], data, path)
    kinds = {typing.get_args(typing.get_type_hints(option)["kind"])[0]: option for option in objects}
    named = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(named, str) or named not in kinds:
        raise SpecError(f"{path}.kind: must be one of {', '.join(kinds)}")
    return _build(kinds[named], data, path)


def _build_dataclass(kind: type[Any], data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        raise SpecError(f"{path}: must be an object")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise SpecError(f"{path}.{unknown[0]}: no such field; known are {', '.join(sorted(hints))}")
    values = {name: _build(hints[name], value, f"{path}.{name}") for name, value in data.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise SpecError(f"{path}: {error}") from error


def _build_scalar(kind: Any, data: Any, path: str) -> Any:
    if kind is float and isinstance(data, int | float) and not isinstance(data, bool):
        return float(data)
    if kind is int and isinstance(data, int) and not isinstance(data, bool):
        return data
    if kind in (str, bool) and isinstance(data, kind):
        return data
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        try:
            return kind(data)
        except ValueError:
            raise SpecError(f"{path}: {data!r} is not one of {', '.join(kind)}") from None
    raise SpecError(f"{path}: {data!r} is not {'a number' if kind in (int, float) else f'a {kind.__name__}'}")
