"""What a run is asked to do: frozen dataclasses, versioned JSON in and out.

A specification never holds a secret: ``api_key_env`` names the environment variable that does.
"""

import dataclasses
import types
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Self

from runners.budget import Budget, complaint
from runners.request_fields import body_complaint, header_complaint, key_header_complaint

SPEC_VERSION = 1


class SpecError(ValueError):
    """The specification cannot be run; the message names the field and the fix."""


class Dialect(StrEnum):
    """The wire forms that are spoken; docs/dialects.md says what each one is and gives."""

    OPENAI_CHAT = "openai-chat"
    OPENAI_COMPLETIONS = "openai-completions"
    OPENAI_RESPONSES = "openai-responses"
    ANTHROPIC_MESSAGES = "anthropic-messages"
    OLLAMA_CHAT = "ollama-chat"
    OLLAMA_GENERATE = "ollama-generate"
    TGI_GENERATE = "tgi-generate"
    TRITON_GENERATE = "triton-generate"
    LLAMACPP_COMPLETION = "llamacpp-completion"
    OPENAI_EMBEDDINGS = "openai-embeddings"
    RERANK = "rerank"


class Arrivals(StrEnum):
    """``closed``: so many requests in flight at all times; the others send on a schedule, whatever comes back."""

    CLOSED = "closed"
    CONSTANT = "constant"
    POISSON = "poisson"


@dataclass(frozen=True)
class Target:
    """``api_key_header`` is "NAME" or "NAME: SCHEME" where the dialect's own is not the right one. ``extra_body`` goes
    over the fields of each request. The files are PEM; ``ca_file`` replaces the system's authorities. ``proxy`` is an
    http:// address that tunnels with CONNECT; proxies of the environment are never used.
    """

    url: str
    model: str = ""
    dialect: Dialect = Dialect.OPENAI_CHAT
    api_key_env: str = ""
    api_key_header: str = ""
    extra_body: dict[str, Any] = field(default_factory=dict)
    extra_headers: dict[str, str] = field(default_factory=dict)
    ca_file: str = ""
    client_cert_file: str = ""
    client_key_file: str = ""
    proxy: str = ""


@dataclass(frozen=True)
class Images:
    """Pictures that go with every prompt: generated PNG files, each different."""

    count: int = 0
    width_px: int = 512
    height_px: int = 512


@dataclass(frozen=True)
class ModelShare:
    """A model or adapter by name, and how many of the requests it gets, relative to the others."""

    name: str
    weight: float = 1.0


@dataclass(frozen=True)
class Workload:
    """Prompts of a stated token length, unique per request and run; ``tokenizer`` is a tokenizer.json, else the
    endpoint's own tokenizer or its usage counts set the length. ``choices`` are answers per request. ``models`` takes
    the place of the target's model: each request picks one, by weight.
    """

    input_tokens: int = 128
    output_tokens: int = 128
    seed: int = 0
    ignore_eos: bool = True
    temperature: float = 0.0
    tokenizer: str = ""
    stream: bool = True
    choices: int = 1
    images: Images = field(default_factory=Images)
    models: tuple[ModelShare, ...] = ()


@dataclass(frozen=True)
class Load:
    """``levels`` are concurrencies (closed) or requests per second (constant, poisson); each becomes a stage.

    A stage sends until ``requests`` were sent or ``duration_s`` has passed, whichever comes first, warm-up not counted.
    ``calibrate_s``: how long the client's own error is measured at each level beforehand; 0 leaves it unknown.
    """

    arrivals: Arrivals = Arrivals.CLOSED
    levels: tuple[float, ...] = (1.0,)
    requests: int | None = None
    duration_s: float | None = None
    warmup_s: float = 0.0
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
class Shard:
    """How many processes carry the load together, and which of them this is; None: the one that starts the others."""

    count: int = 1
    index: int | None = None


@dataclass(frozen=True)
class ServerMetrics:
    """The server's metrics page, read beside the load. ``url``: where it is when not at /metrics of the endpoint."""

    scrape: bool = True
    url: str = ""


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
    budget: Budget = field(default_factory=Budget)
    server: ServerMetrics = field(default_factory=ServerMetrics)
    shard: Shard = field(default_factory=Shard)
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


_MAX_REQUESTS, _MAX_RATE_PER_S, _MAX_SCHEDULED = 1_000_000, 10_000, 5_000_000
_MAX_IMAGES, _MAX_IMAGE_PX, _MAX_CHOICES = 64, 8192, 128


def _check_budget(spec: RunSpec) -> None:
    """A run whose worst case is unknown or too dear is refused wherever its specification is read."""
    load, workload = spec.load, spec.workload
    trouble = complaint(
        spec.budget,
        stages=len(load.levels),
        requests=load.requests,
        warmup_s=load.warmup_s,
        input_tokens=workload.input_tokens,
        output_tokens=workload.output_tokens,
    )
    if trouble:
        raise SpecError(trouble)


def _check(spec: RunSpec) -> None:
    if spec.version != SPEC_VERSION:
        raise SpecError(f"version: {spec.version} is not known here; this is version {SPEC_VERSION}")
    _check_finite(spec, "")
    _check_target(spec.target)
    _check_workload(spec.workload)
    _check_load(spec.load)
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
    _check_shard(spec)
    if spec.server.url and not spec.server.url.startswith(("http://", "https://")):
        raise SpecError("server.url: must start with http:// or https://")
    _check_budget(spec)


def _check_finite(value: Any, path: str) -> None:
    if dataclasses.is_dataclass(value):
        for item in dataclasses.fields(value):
            _check_finite(getattr(value, item.name), f"{path}.{item.name}" if path else item.name)
    elif isinstance(value, tuple):
        for inner in value:
            _check_finite(inner, path)
    elif isinstance(value, float) and not isfinite(value):
        raise SpecError(f"{path}: {value} is not a number that can be used; give a finite one")


def _check_target(target: Target) -> None:
    if not target.url.startswith(("http://", "https://")):
        raise SpecError(f"target.url: {target.url!r} must start with http:// or https://")
    if target.proxy and not target.proxy.startswith("http://"):
        raise SpecError("target.proxy: give an http:// address, such as http://proxy:3128")
    if target.client_key_file and not target.client_cert_file:
        raise SpecError("target.client_key_file: give target.client_cert_file as well")
    for name in ("ca_file", "client_cert_file"):
        if getattr(target, name) and not target.url.startswith("https://"):
            raise SpecError(f"target.{name}: only https:// addresses use it")
    complaints = {
        "api_key_header": key_header_complaint(target.api_key_header) if target.api_key_header else None,
        "extra_body": body_complaint(target.extra_body),
    } | {f"extra_headers.{name}": header_complaint(name, value) for name, value in target.extra_headers.items()}
    for name, trouble in complaints.items():
        if trouble:
            raise SpecError(f"target.{name}: {trouble}")


def _check_workload(workload: Workload) -> None:
    if not 1 <= workload.input_tokens <= 2_000_000:
        raise SpecError("workload.input_tokens: between 1 and 2000000")
    if not 1 <= workload.output_tokens <= 1_000_000:
        raise SpecError("workload.output_tokens: between 1 and 1000000")
    if not 1 <= workload.choices <= _MAX_CHOICES:
        raise SpecError(f"workload.choices: between 1 and {_MAX_CHOICES}")
    images = workload.images
    if not 0 <= images.count <= _MAX_IMAGES:
        raise SpecError(f"workload.images.count: between 0 and {_MAX_IMAGES}")
    for side, pixels in (("width_px", images.width_px), ("height_px", images.height_px)):
        if not 1 <= pixels <= _MAX_IMAGE_PX:
            raise SpecError(f"workload.images.{side}: between 1 and {_MAX_IMAGE_PX} pixels")
    for number, share in enumerate(workload.models):
        if not share.name:
            raise SpecError(f"workload.models[{number}].name: the name of a model or adapter")
        if not 0 < share.weight < float("inf"):
            raise SpecError(f"workload.models[{number}].weight: above 0, such as 1")


def _check_load(load: Load) -> None:
    if not load.levels or any(not level > 0 for level in load.levels):
        raise SpecError("load.levels: give at least one level, each above 0, such as 1,4,16")
    if load.arrivals is Arrivals.CLOSED and any(level != int(level) for level in load.levels):
        raise SpecError("load.levels: concurrency is a whole number of requests in flight, such as 1,4,16")
    if load.requests is None and load.duration_s is None:
        raise SpecError("load: say when a stage ends: a number of requests or a duration in seconds")
    if load.requests is not None and not 1 <= load.requests <= _MAX_REQUESTS:
        raise SpecError(f"load.requests: between 1 and {_MAX_REQUESTS}")
    if load.duration_s is not None and not 0 < load.duration_s <= 86_400:
        raise SpecError("load.duration_s: above 0 and at most 86400 (a day)")
    if not 0 <= load.warmup_s <= 3_600:
        raise SpecError("load.warmup_s: between 0 and 3600 seconds")
    if not 0 <= load.calibrate_s <= 60:
        raise SpecError("load.calibrate_s: between 0 (none) and 60 seconds a level")
    if not 0 <= load.drain_s <= 3_600:
        raise SpecError("load.drain_s: between 0 and 3600 seconds")
    if load.max_in_flight < 1:
        raise SpecError("load.max_in_flight: at least 1")
    _check_schedule(load)
    if max(load.levels) > load.max_in_flight and load.arrivals is Arrivals.CLOSED:
        raise SpecError(
            f"load.levels: a concurrency above load.max_in_flight ({load.max_in_flight}) can never be reached"
        )


def _check_shard(spec: RunSpec) -> None:
    shard, load = spec.shard, spec.load
    if not 1 <= shard.count <= 256:
        raise SpecError("shard.count: between 1 and 256 processes or load hosts")
    if shard.index is not None and not 0 <= shard.index < shard.count:
        raise SpecError(f"shard.index: from 0 to {shard.count - 1}, or leave it out for the whole")
    if shard.count > load.max_in_flight:
        raise SpecError(f"shard.count: more than load.max_in_flight ({load.max_in_flight}) can never all send")
    if shard.count > 1 and spec.budget.max_usd is not None:
        raise SpecError("shard.count: 1 where the endpoint charges by the token, for each process asks beforehand")


def _check_schedule(load: Load) -> None:
    """The sending times of a rate are computed beforehand, so their number is bounded."""
    if load.arrivals is Arrivals.CLOSED:
        return
    if max(load.levels) > _MAX_RATE_PER_S:
        raise SpecError(f"load.levels: at most {_MAX_RATE_PER_S} requests per second")
    if max(load.levels) * ((load.duration_s or 0) + load.warmup_s) > _MAX_SCHEDULED:
        raise SpecError(
            f"load.duration_s: the rate times duration and warm-up comes to more than {_MAX_SCHEDULED} requests; "
            "ask for a shorter stage or a lower rate"
        )


def _build(kind: Any, data: Any, path: str) -> Any:
    """``data`` as the annotated type ``kind``; strict, so that a typo is an error and not a default."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        if data is None:
            return None
        inner = next(option for option in typing.get_args(kind) if option is not type(None))
        return _build(inner, data, path)
    if origin is tuple:
        if not isinstance(data, list | tuple):
            raise SpecError(f"{path}: must be a list")
        return tuple(_build(typing.get_args(kind)[0], item, f"{path}[{i}]") for i, item in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise SpecError(f"{path}: must be an object")
        return {name: _build(typing.get_args(kind)[1], value, f"{path}.{name}") for name, value in data.items()}
    if kind is Any:
        return data
    if dataclasses.is_dataclass(kind):
        return _build_dataclass(typing.cast(type[Any], kind), data, path)
    return _build_scalar(kind, data, path)


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
