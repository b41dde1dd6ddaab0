"""What a benchmark will take, told before it starts: seconds, requests, tokens, money.

The pace comes from the last valid run of the same benchmark, else of the same deployment; without one it is assumed,
and said so.
"""

from dataclasses import dataclass
from math import ceil

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment
from observatory.runs import money
from observatory.runs.models import Measurement, Run
from runners.load.workloads.lengths import mean_tokens
from runners.metrics import Mark
from runners.power.idle import idle_seconds
from runners.spec import Arrivals, RunSpec, SpecError

ASSUMED_TTFT_MS = 300.0
ASSUMED_TPOT_MS = 25.0


@dataclass(frozen=True)
class Pace:
    """How fast a deployment answers: (load level, TTFT in ms, TPOT in ms) of each stage that is known."""

    stages: tuple[tuple[float, float, float], ...]
    source: str
    mark: Mark

    def request_s(self, level: float, output_tokens: float) -> float:
        """Seconds of one request at the load that is nearest to ``level``."""
        _, ttft_ms, tpot_ms = min(self.stages, key=lambda stage: abs(stage[0] - level))
        return (ttft_ms + tpot_ms * (output_tokens - 1)) / 1000


ASSUMED = Pace(
    ((1.0, ASSUMED_TTFT_MS, ASSUMED_TPOT_MS),),
    f"assumed: {ASSUMED_TTFT_MS:.0f} ms to the first token and {ASSUMED_TPOT_MS:.0f} ms for each after it, at any load",
    Mark.ASSUMED,
)


@dataclass(frozen=True)
class Estimate:
    """``usd`` is the deployment's hours at its price; None while the price is unknown. ``reserve_usd``: what a run sets
    aside for an endpoint that charges by the token; ``confirm`` is the amount to be typed where that is much.
    """

    seconds: float
    requests: int
    input_tokens: int
    output_tokens: int
    usd: float | None
    pace: Pace
    reserve_usd: float | None = None
    confirm: str = ""


def pace_of(deployment: Deployment, benchmark: Benchmark | None = None) -> Pace:
    """The pace of the benchmark's last valid run; without one, of the deployment's."""
    valid = Run.objects.filter(deployment=deployment, status=Run.Status.FINISHED, valid=True)
    own = valid.filter(benchmark=benchmark).first() if benchmark and benchmark.pk else None
    run, of = own or valid.first(), "benchmark" if own else "deployment"
    if run is None:
        return ASSUMED
    found: dict[float, dict[str, float]] = {}
    numbers = Measurement.objects.filter(run=run, statistic="mean", metric__in=("ttft_ms", "tpot_ms"))
    for level, metric, value in numbers.values_list("stage__load_value", "metric", "value"):
        found.setdefault(level, {})[metric] = value
    stages = tuple((level, two["ttft_ms"], two["tpot_ms"]) for level, two in sorted(found.items()) if len(two) == 2)
    return Pace(stages, f"from run {run.pk} of the same {of}", Mark.MODELLED) if stages else ASSUMED


def estimate(spec: RunSpec, pace: Pace) -> Estimate:
    """The sum over the stages, and idle power before and after. Raises SpecError for a load beyond all counting."""
    try:
        stages = [_stage(spec, level, pace) for level in spec.load.levels]
    except OverflowError:
        raise SpecError("load.levels: a stage at such a level has no end; give levels such as 1, 4, 16") from None
    seconds = sum(stage_s for stage_s, _ in stages) + idle_seconds(spec.power)
    requests = sum(count for _, count in stages)
    price = spec.account.usd_per_hour
    return Estimate(
        seconds=seconds,
        requests=requests,
        input_tokens=round(requests * mean_tokens(spec.workload.input_tokens)),
        output_tokens=round(requests * mean_tokens(spec.workload.output_tokens)),
        usd=None if price is None else price * seconds / 3600,
        pace=pace,
        reserve_usd=spec.budget.max_usd,
        confirm=money.must_type(spec),
    )


def _stage(spec: RunSpec, level: float, pace: Pace) -> tuple[float, int]:
    """(seconds, requests) of one stage: it sends until its requests or its time are used up, then waits for answers."""
    load = spec.load
    request_s = pace.request_s(level, mean_tokens(spec.workload.output_tokens))
    closed = load.arrivals is Arrivals.CLOSED
    per_s = level / request_s if closed else level
    ends = [] if load.duration_s is None else [load.duration_s]
    if load.requests is not None:
        ends.append(ceil(load.requests / level) * request_s if closed else load.requests / level)
    sending_s = min(ends)
    requests = ceil(per_s * sending_s) if load.requests is None else min(load.requests, ceil(per_s * sending_s))
    warmup = ceil(per_s * load.warmup_s)
    return load.warmup_s + sending_s + min(request_s, load.drain_s), max(requests, 1) + warmup
