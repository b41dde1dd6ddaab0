"""What a benchmark will take, told before it starts: seconds, requests, tokens, money.

The pace comes from the last valid run of the same benchmark, else of the same deployment; without one it is assumed,
and said so.
"""

from dataclasses import dataclass
from math import ceil

from observatory.benchmarks.models import Benchmark, WorkloadFile
from observatory.catalog.models import Deployment
from observatory.pages.estimated_work import Facts, Work, work_of
from observatory.runs import money
from observatory.runs.models import Measurement, Run
from runners.metrics import Mark
from runners.power.idle import idle_seconds
from runners.quality.spec import QualitySpec
from runners.spec import Arrivals, RunSpec, SpecError

ASSUMED_TTFT_MS = 300.0
ASSUMED_TPOT_MS = 25.0
#: Where a workload does not tell the length of its answers.
ASSUMED_OUTPUT_TOKENS = 128


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
    """What cannot be known beforehand is None, and ``notes`` say why. ``usd`` is the deployment's hours at its price;
    None while the price is unknown. ``reserve_usd``: what a run sets aside for an endpoint that charges by the token;
    ``confirm`` is the amount to be typed where that is much.
    """

    seconds: float
    requests: int | None
    input_tokens: int | None
    output_tokens: int | None
    usd: float | None
    pace: Pace
    notes: tuple[str, ...] = ()
    reserve_usd: float | None = None
    confirm: str = ""

    @property
    def counts(self) -> list[tuple[str, int | None]]:
        """(name, number or None) in the order in which they are shown."""
        return [
            ("Requests", self.requests),
            ("Prompt tokens", self.input_tokens),
            ("Answer tokens", self.output_tokens),
        ]

    @property
    def bound(self) -> bool:
        """Whether the duration is the most that it may take: a search may end earlier."""
        return self.requests is None


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


def facts_of(spec: RunSpec) -> Facts:
    """What is in the workload files that a specification names, by their names."""
    return {file.name: file.facts for file in WorkloadFile.objects.filter(name__in=spec.files)}


def estimate(spec: RunSpec, pace: Pace, facts: Facts | None = None) -> Estimate:
    """The sum over the stages, with idle power before and after. Raises SpecError for a load beyond all counting."""
    load, work = spec.load, work_of(spec.workload, facts or {})
    levels = load.levels[:1] * load.search.max_stages if load.search else load.levels * load.repeats
    levels *= len(spec.workload.input_sweep) or 1
    try:
        stages = [_stage(spec, level, pace, work) for level in levels]
    except OverflowError:
        raise SpecError("load.levels: a stage at such a level has no end; give levels such as 1, 4, 16") from None
    loaded_s = sum(stage_s for stage_s, _ in stages)
    seconds = min(loaded_s, load.run_s or loaded_s) + idle_seconds(spec.power)
    requests = None if load.search else sum(count for _, count in stages)
    price = spec.account.usd_per_hour
    return Estimate(
        seconds=seconds,
        requests=requests,
        input_tokens=_times(requests, work.input_tokens),
        output_tokens=_times(requests, work.output_tokens and work.output_tokens * spec.workload.choices),
        usd=None if price is None else price * seconds / 3600,
        pace=pace,
        notes=(*_search_notes(spec), *work.notes),
        reserve_usd=spec.budget.max_usd,
        confirm=money.must_type(spec),
    )


def questions_s(spec: QualitySpec, pace: Pace) -> float:
    """Seconds that an evaluation takes, each answer as long as it may be."""
    each = (pace.request_s(spec.concurrency, spec.length(task)) for task in spec.tasks.tasks)
    return sum(each) / spec.concurrency


def _times(requests: int | None, tokens: float | None) -> int | None:
    return None if requests is None or tokens is None else round(requests * tokens)


def _search_notes(spec: RunSpec) -> list[str]:
    search = spec.load.search
    if search is None:
        return []
    return [
        f"A search ends when it has its answer, after {search.max_stages} stages at most. The duration is that of all "
        "of them at the load where it starts; how many requests it sends is not known beforehand."
    ]


def _stage(spec: RunSpec, level: float, pace: Pace, work: Work) -> tuple[float, int]:
    """(seconds, requests) of one stage: it sends until its requests or its time are used up, then waits for answers."""
    load = spec.load
    request_s = pace.request_s(level, work.output_tokens or ASSUMED_OUTPUT_TOKENS)
    mean = level if load.ramp_from is None else (load.ramp_from + level) / 2
    ends = [] if load.duration_s is None else [load.duration_s]
    if load.arrivals is Arrivals.CLOSED:
        turn_s = request_s + work.wait_s
        per_s = mean / turn_s
        ends += [] if load.requests is None else [ceil(load.requests / level) * turn_s]
    elif load.arrivals is Arrivals.REPLAY:
        per_s = level * work.entries / max(work.span_s, 1)
        ends += [work.span_s / level] + ([] if load.requests is None else [load.requests / per_s])
    else:
        per_s = mean * work.turns
        ends += [] if load.requests is None else [load.requests / per_s]
    sending_s = min(ends)
    sent = ceil(per_s * sending_s)
    beside_s = load.warmup_s + load.cooldown_s
    requests = max(sent if load.requests is None else min(load.requests, sent), 1)
    return beside_s + sending_s + min(request_s, load.drain_s), requests + ceil(per_s * beside_s)
