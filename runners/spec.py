"""What a run is asked to do: frozen dataclasses, versioned JSON in and out.

A specification never holds a secret: ``api_key_env`` names the environment variable that does.
"""

import dataclasses
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite
from typing import Any, Self

from runners.budget import Budget, complaint
from runners.loads import MAX_LEVELS, Arrivals, Goal, Load, Search, check_load
from runners.powers import Power, check_power
from runners.request_fields import body_complaint, header_complaint, key_header_complaint
from runners.sources import (
    MAX_INPUT_TOKENS,
    MAX_OUTPUT_TOKENS,
    Agents,
    Conversations,
    Prefixes,
    Source,
    Synthetic,
    Tokens,
    Trace,
    length_complaint,
    most_tokens,
    source_complaint,
)
from runners.strict_json import SpecError, build

__all__ = [
    "SPEC_VERSION", "Account", "Arrivals", "Dialect", "Goal", "Images", "Load", "ModelShare", "Power", "RunSpec",
    "Search", "Slo", "SpecError", "Target", "Timeouts", "Workload",
]  # fmt: skip

SPEC_VERSION = 1


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
    """Prompts of a stated token length, unique per request and run; ``tokenizer`` is a tokenizer.json or a GGUF model,
    else the endpoint's own tokenizer or its usage counts set the length. ``source`` says what they are made of.
    ``input_sweep``: prompt lengths that take the place of ``input_tokens`` one after the other, a stage each at one
    load. ``choices`` are answers per request. ``models`` takes the place of the target's model: each request picks one,
    by weight.
    """

    input_tokens: Tokens = 128
    output_tokens: Tokens = 128
    seed: int = 0
    ignore_eos: bool = True
    temperature: float = 0.0
    tokenizer: str = ""
    stream: bool = True
    choices: int = 1
    images: Images = field(default_factory=Images)
    models: tuple[ModelShare, ...] = ()
    source: Source = field(default_factory=Synthetic)
    input_sweep: tuple[int, ...] = ()


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
    """What turns seconds and joules into money and facility energy; missing stays missing in every result.

    ``pue_low``, ``pue_high``: between these the PUE lies, where that is known. ``queries_per_hour``: the traffic that
    the deployment gets, for its energy with the idle time between.
    """

    usd_per_hour: float | None = None
    price_source: str = ""
    pue: float | None = None
    pue_source: str = ""
    queries_per_hour: float | None = None
    pue_low: float | None = None
    pue_high: float | None = None

    @property
    def pue_bounds(self) -> tuple[float, float] | None:
        return None if self.pue_low is None or self.pue_high is None else (self.pue_low, self.pue_high)


@dataclass(frozen=True)
class RunSpec:
    """``files``: SHA-256 of each file that the workload names; a file that differs is refused."""

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
    files: dict[str, str] = field(default_factory=dict)
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
        spec = build(cls, data, "spec")
        assert isinstance(spec, cls)  # noqa: S101
        return spec


_MAX_IMAGES, _MAX_IMAGE_PX, _MAX_CHOICES, _MAX_MODELS = 64, 8192, 128, 100


@dataclass(frozen=True)
class Extent:
    """The most that a run can be: ``requests`` of a stage, None where only time ends it; tokens of a request."""

    stages: int
    requests: int | None
    input_tokens: int
    output_tokens: int


def extent(spec: RunSpec) -> Extent:
    """Raises SpecError for a workload whose lengths have no bound."""
    load, workload = spec.load, spec.workload
    lengths = [most_tokens(tokens) for tokens in (workload.input_tokens, *workload.input_sweep)]
    output = most_tokens(workload.output_tokens)
    if not isinstance(workload.source, Synthetic | Prefixes) or output is None or None in lengths:
        raise SpecError(
            "workload: for an API that charges by the token send made-up prompts (synthetic, prefixes) of bounded "
            "length: give each length that varies a high"
        )
    return Extent(
        stages=load.search.max_stages if load.search else load.repeats * len(workload.input_sweep or load.levels),
        requests=load.requests and max(load.requests, load.search.confirm_requests if load.search else 0),
        input_tokens=max(tokens for tokens in lengths if tokens is not None),
        output_tokens=output * workload.choices,
    )


def _check_budget(spec: RunSpec) -> None:
    """A run whose worst case is unknown or too dear is refused wherever its specification is read."""
    if spec.budget.max_usd is None:
        return
    load, workload, most = spec.load, spec.workload, extent(spec)
    unbounded = {
        "workload.images": bool(workload.images.count),
        "workload.models": bool(workload.models),
        "target.extra_body": bool(spec.target.extra_body),
    }
    trouble = complaint(
        spec.budget,
        stages=most.stages,
        requests=most.requests,
        warmup_s=load.warmup_s + load.cooldown_s,
        input_tokens=most.input_tokens,
        output_tokens=most.output_tokens,
        unbounded=[name for name, used in unbounded.items() if used],
    )
    if trouble:
        raise SpecError(trouble)


def _check(spec: RunSpec) -> None:
    if spec.version != SPEC_VERSION:
        raise SpecError(f"version: {spec.version} is not known here; this is version {SPEC_VERSION}")
    _check_finite(spec, "")
    check_target(spec.target)
    _check_workload(spec.workload)
    check_load(spec.load)
    _check_together(spec)
    for name, bound in spec.slo.bounds().items():
        if not bound > 0:
            raise SpecError(f"slo.{name}: above 0 milliseconds, or leave it out")
    for name, seconds in dataclasses.asdict(spec.timeouts).items():
        if not seconds > 0:
            raise SpecError(f"timeouts.{name}: above 0 seconds")
    check_power(spec.power)
    if spec.account.pue is not None and not 1 <= spec.account.pue <= 5:
        raise SpecError("account.pue: between 1 and 5 (1.09 is Google's fleet, 1.5 a usual server room)")
    lowest, highest = spec.account.pue_low, spec.account.pue_high
    if (lowest, highest) != (None, None) and not 1 <= (lowest or 0) <= (spec.account.pue or 0) <= (highest or 0) <= 5:
        raise SpecError("account.pue_low: give both bounds, between 1 and 5, with the PUE between them")
    if spec.account.queries_per_hour is not None and not 0 < spec.account.queries_per_hour < float("inf"):
        raise SpecError("account.queries_per_hour: above 0, or leave it out when the traffic is unknown")
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


def check_target(target: Target) -> None:
    """Raises SpecError that names the field and the fix."""
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
    if complaint := length_complaint(workload.input_tokens, MAX_INPUT_TOKENS):
        raise SpecError(f"workload.input_tokens: {complaint}")
    if complaint := length_complaint(workload.output_tokens, MAX_OUTPUT_TOKENS):
        raise SpecError(f"workload.output_tokens: {complaint}")
    if len(workload.input_sweep) > MAX_LEVELS:
        raise SpecError(f"workload.input_sweep: at most {MAX_LEVELS} lengths; each becomes a stage")
    for number, tokens in enumerate(workload.input_sweep):
        if complaint := length_complaint(tokens, MAX_INPUT_TOKENS):
            raise SpecError(f"workload.input_sweep[{number}]: {complaint}")
    shortest = min(workload.input_sweep, default=workload.input_tokens)
    if found := source_complaint(workload.source, shortest):
        raise SpecError(f"workload.source.{found[0]}: {found[1]}")
    _check_variants(workload)


def _check_variants(workload: Workload) -> None:
    if not 1 <= workload.choices <= _MAX_CHOICES:
        raise SpecError(f"workload.choices: between 1 and {_MAX_CHOICES}")
    images = workload.images
    if not 0 <= images.count <= _MAX_IMAGES:
        raise SpecError(f"workload.images.count: between 0 and {_MAX_IMAGES}")
    for side, pixels in (("width_px", images.width_px), ("height_px", images.height_px)):
        if not 1 <= pixels <= _MAX_IMAGE_PX:
            raise SpecError(f"workload.images.{side}: between 1 and {_MAX_IMAGE_PX} pixels")
    if len(workload.models) > _MAX_MODELS:
        raise SpecError(f"workload.models: at most {_MAX_MODELS}")
    for number, share in enumerate(workload.models):
        if not share.name:
            raise SpecError(f"workload.models[{number}].name: the name of a model or adapter")
        if not 0 < share.weight < float("inf"):
            raise SpecError(f"workload.models[{number}].weight: above 0, such as 1")


def _check_together(spec: RunSpec) -> None:
    load, workload, search = spec.load, spec.workload, spec.load.search
    if load.arrivals is Arrivals.REPLAY and not isinstance(workload.source, Trace):
        raise SpecError(
            'load.arrivals: replay takes its times from a trace: set workload.source to one ("kind": "trace")'
        )
    if workload.input_sweep and (len(load.levels) != 1 or search):
        raise SpecError("workload.input_sweep: the levels of a length sweep are its lengths: give one load, no search")
    if workload.images.count and isinstance(workload.source, Conversations | Agents):
        raise SpecError("workload.images: pictures go with single prompts only; choose another workload.source")
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


def _check_shard(spec: RunSpec) -> None:
    shard, load = spec.shard, spec.load
    if not 1 <= shard.count <= 256:
        raise SpecError("shard.count: between 1 and 256 processes or load hosts")
    if shard.index is not None and not 0 <= shard.index < shard.count:
        raise SpecError(f"shard.index: from 0 to {shard.count - 1}, or leave it out for the whole")
    if shard.count > load.max_in_flight:
        raise SpecError(f"shard.count: more than load.max_in_flight ({load.max_in_flight}) can never all send")
    if shard.count == 1:
        return
    if load.search or isinstance(spec.workload.source, Conversations | Agents):
        raise SpecError("shard.count: 1 for a search, conversations and agents: what they send next hangs on answers")
    if spec.budget.max_usd is not None:
        raise SpecError("shard.count: 1 where the endpoint charges by the token, for each process asks beforehand")
