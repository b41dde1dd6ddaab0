"""What load a stage puts on an endpoint, and the names of its levels, alike in every table, chart and message."""

from dataclasses import dataclass
from enum import StrEnum
from math import ceil, log

from runners.strict_json import SpecError

#: Each is a stage.
MAX_LEVELS = 100
_MAX_REPEATS = 30
_MAX_IN_FLIGHT = 1_000_000
_MAX_RUN_S = 7 * 86_400
_MAX_REQUESTS, _MAX_RATE_PER_S, _MAX_SCHEDULED = 1_000_000, 10_000, 5_000_000


class Arrivals(StrEnum):
    """``closed``: so many requests in flight at all times; the others send on a schedule, whatever comes back.

    ``gamma`` has gaps of a stated coefficient of variation; ``replay`` takes the times of a trace.
    """

    CLOSED = "closed"
    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    REPLAY = "replay"


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

    @property
    def least_requests(self) -> int:
        """The sample in which ``share`` can be confirmed, with 95 % confidence, when every request met the SLO."""
        return ceil(log(0.05) / log(self.share))

    @property
    def confirm_requests(self) -> int:
        """What a confirmation sends at least: some of them may fail."""
        return int(1.5 * self.least_requests) + 1


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
    ``drain_s``: how long a stage waits for the answers still under way. ``run_s``: when all stages together have taken
    so long, the run stops and keeps what it has.
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
    run_s: float | None = None


@dataclass(frozen=True)
class LoadKind:
    """``long`` and ``short`` take a value; ``axis`` names the axis of a chart."""

    long: str
    short: str
    axis: str


KINDS: dict[str, LoadKind] = {
    "concurrency": LoadKind("concurrency {:g}", "c={:g}", "Concurrency"),
    "rate": LoadKind("{:g} req/s", "{:g}/s", "Arrival rate, requests/s"),
    "speed": LoadKind("{:g} × recorded speed", "{:g}x", "Speed of the replay"),
    "input_tokens": LoadKind("{:g} prompt tokens", "{:g} tok", "Prompt tokens"),
}


def long_name(kind: str, value: float) -> str:
    """Such as "concurrency 4" or "2.5 req/s"."""
    return KINDS[kind].long.format(value)


def short_name(kind: str, value: float) -> str:
    """Such as "c=4" or "2.5/s"."""
    return KINDS[kind].short.format(value)


def check_load(load: Load) -> None:
    """Raises SpecError that names the field and the fix."""
    if not load.levels or any(not 0 < level < float("inf") for level in load.levels):
        raise SpecError("load.levels: give at least one level, each above 0, such as 1,4,16")
    if len(load.levels) > MAX_LEVELS:
        raise SpecError(f"load.levels: at most {MAX_LEVELS}; each becomes a stage")
    if load.arrivals is Arrivals.CLOSED and any(level != int(level) for level in load.levels):
        raise SpecError("load.levels: concurrency is a whole number of requests in flight, such as 1,4,16")
    if load.requests is None and load.duration_s is None and load.arrivals is not Arrivals.REPLAY:
        raise SpecError("load: say when a stage ends: a number of requests or a duration in seconds")
    if load.requests is not None and not 1 <= load.requests <= _MAX_REQUESTS:
        raise SpecError(f"load.requests: between 1 and {_MAX_REQUESTS}")
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
    if not 1 <= load.max_in_flight <= _MAX_IN_FLIGHT:
        raise SpecError(f"load.max_in_flight: between 1 and {_MAX_IN_FLIGHT}")
    _check_phases(load)
    _check_schedule(load)


def _check_phases(load: Load) -> None:
    for name in ("warmup_s", "cooldown_s", "drain_s"):
        if not 0 <= getattr(load, name) <= 3_600:
            raise SpecError(f"load.{name}: between 0 and 3600 seconds")
    if load.run_s is not None and not 0 < load.run_s <= _MAX_RUN_S:
        raise SpecError(f"load.run_s: above 0 and at most {_MAX_RUN_S} seconds (a week), or leave it out")
    if not 0 <= load.calibrate_s <= 60:
        raise SpecError("load.calibrate_s: between 0 (none) and 60 seconds a level")
    if load.ramp_from is None:
        return
    if load.duration_s is None or load.arrivals is Arrivals.REPLAY:
        raise SpecError("load.ramp_from: a ramp needs load.duration_s, and a trace's times cannot be ramped")
    if not 0 < load.ramp_from < min(load.levels):
        raise SpecError("load.ramp_from: above 0 and below every level: the load rises from there to the level")


def _check_schedule(load: Load) -> None:
    """The sending times of a rate are computed beforehand, so their number is bounded."""
    if load.arrivals in (Arrivals.CLOSED, Arrivals.REPLAY):
        return
    if max(load.levels) > _MAX_RATE_PER_S:
        raise SpecError(f"load.levels: at most {_MAX_RATE_PER_S} requests per second")
    if max(load.levels) * ((load.duration_s or 0) + load.warmup_s + load.cooldown_s) > _MAX_SCHEDULED:
        raise SpecError(
            f"load.duration_s: the rate times duration and warm-up comes to more than {_MAX_SCHEDULED} requests; "
            "ask for a shorter stage or a lower rate"
        )
