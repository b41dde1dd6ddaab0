"""What the run page shows, made from a stored run; values and words only, no markup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from observatory.compare.intervals import percentile_interval
from observatory.compare.refusals import ENERGY_METRICS
from observatory.compare.samples import stage_rows, stage_samples
from observatory.compare.sources import numbers_are_valid, read_rows, slo_bounds, stage_numbers
from observatory.compare.stages import FloatArray, Number
from observatory.pages.charts import StagePoint, colour, visible
from observatory.runs import money
from observatory.runs.models import Run, Stage
from runners.load.outcomes import HELP, Outcome
from runners.load.search import FINDINGS
from runners.loads import KINDS
from runners.metrics import BY_KEY, PERCENTILE_MIN_N, Mark, Metric, display
from runners.prices.metered import COLUMNS as TOKEN_COLUMNS
from runners.prices.metered import Metered, metered

#: Below this a stage's percentiles are a hint: a p90 needs as many samples.
FEW = PERCENTILE_MIN_N["p90"]

_HEADLINE = (
    ("ttft_ms", "p50"),
    ("ttft_ms", "p99"),
    ("interactivity_tokens_per_s", "p50"),
    ("output_tokens_per_s", "mean"),
    ("goodput_per_s", "mean"),
    ("wh_per_query", "mean"),
    ("usd_per_mtok_output", "mean"),
)


@dataclass(frozen=True)
class Figure:
    """A number of the headline strip. ``reason`` says why it is missing."""

    metric: Metric
    statistic: str
    number: Number | None
    interval: str
    n: int | None
    reason: str

    @property
    def label(self) -> str:
        return self.metric.label if self.statistic == "mean" else f"{self.metric.label} {self.statistic}"


@dataclass(frozen=True)
class Notice:
    """``level``: error, warning or info."""

    level: str
    text: str
    details: Sequence[str] = ()


@dataclass(frozen=True)
class Failure:
    outcome: str
    count: int
    example: str
    help: str


class StageResults:
    """One stage with its numbers, and its samples when the raw rows are there."""

    def __init__(self, stage: Stage, rows: pa.Table | None) -> None:
        self.stage = stage
        self.index = stage.index
        self._rows = None if rows is None else stage_rows(rows, stage.index)
        self.numbers = stage_numbers(stage, self._rows)
        self.label = str(stage)
        self.colour = colour(stage.index)

    @cached_property
    def samples(self) -> dict[str, FloatArray]:
        return {} if self._rows is None else stage_samples(self._rows)

    def metered(self, *, reasoning_apart: bool) -> Metered | None:
        """The usage of its good requests; None without raw rows."""
        if self._rows is None:
            return None
        return metered(self._rows.of_good(TOKEN_COLUMNS), reasoning_apart=reasoning_apart)

    @property
    def sound(self) -> bool:
        return self.stage.verdict == "ok"

    @property
    def why_hollow(self) -> str:
        """Why the stage's numbers must be taken with care; empty when they need not."""
        words = {"client_limited": "limited by the load machine", "interrupted": "interrupted", "failed": "failed"}
        if not self.sound:
            return words.get(self.stage.verdict, self.stage.verdict)
        return f"few samples (n = {self.stage.ok})" if self.stage.ok < FEW else ""

    def value(self, metric: str, statistic: str = "mean") -> float | None:
        number = self.numbers.get((metric, statistic))
        return None if number is None else number.value

    def interval(self, metric: str, statistic: str) -> tuple[float, float] | None:
        """95 %: of a percentile from the raw rows, of a mean as the instrument gave it."""
        number = self.numbers.get((metric, statistic))
        if number is None:
            return None
        if statistic == "mean":
            return None if number.low is None or number.high is None else (number.low, number.high)
        sample = self.samples.get(metric)
        return None if sample is None or not sample.size else percentile_interval(sample, float(statistic[1:]))

    @property
    def failures(self) -> list[Failure]:
        """By class, most frequent first."""
        found = [
            Failure(name, fact["count"], fact.get("example") or "", help_of(name))
            for name, fact in self.stage.failures.items()
        ]
        return sorted(found, key=lambda failure: -failure.count)

    def point(self, href: str = "") -> StagePoint:
        repeat = f" #{self.stage.repeat}" if self.stage.repeat > 1 else ""
        short, axis = f"{self.stage.load_value:g}{repeat}", KINDS[self.stage.load_kind].axis
        return StagePoint(self.label, self.numbers, self.samples, self.why_hollow, self.colour, href, short, axis)


def help_of(outcome: str) -> str:
    return HELP[Outcome(outcome)] if outcome in set(Outcome) else ""


class RunResults:
    """A run and its stages. Raw rows are read once, when first asked for."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.summary: Mapping[str, Any] = run.summary or {}

    @cached_property
    def rows(self) -> pa.Table | None:
        return read_rows(self.run.requests_file)

    @cached_property
    def power(self) -> pa.Table | None:
        return read_rows(self.run.power_file)

    @cached_property
    def server(self) -> pa.Table | None:
        return read_rows(self.run.server_file)

    def server_account(self, stage: StageResults) -> Mapping[str, Any] | None:
        """What the server said of itself during a stage (docs/server-metrics.md)."""
        stages = self.summary.get("stages") or []
        return next((item.get("server") for item in stages if item["index"] == stage.index), None)

    @cached_property
    def stages(self) -> list[StageResults]:
        stored = self.run.stages.prefetch_related("measurements").order_by("index")
        return [StageResults(stage, self.rows) for stage in stored]

    @property
    def slo(self) -> dict[str, float]:
        return slo_bounds(self.run)

    @cached_property
    def best(self) -> StageResults | None:
        """The sound stage of the lowest load that does as well as ``highest``, chance taken into account: what lies
        within the interval of the highest cannot be told from it, and a lower load has shorter latencies.
        """
        top = self.highest
        if top is None:
            return next(iter(self.stages), None)
        number = top.numbers[self.best_metric, "mean"]
        least = number.value if number.low is None else number.low
        good = [stage for stage in self._sound if (stage.value(self.best_metric) or 0.0) >= least]
        return min(good, key=lambda stage: stage.stage.load_value)

    @cached_property
    def highest(self) -> StageResults | None:
        """The sound stage of the highest goodput where an SLO is set, else of the highest output throughput."""
        return max(self._sound, key=lambda stage: stage.value(self.best_metric) or 0.0, default=None)

    @property
    def _sound(self) -> list[StageResults]:
        return [stage for stage in self.stages if stage.sound and stage.value(self.best_metric) is not None]

    @property
    def best_metric(self) -> str:
        return "goodput_per_s" if self.slo else "output_tokens_per_s"

    def chosen(self, asked: str) -> StageResults | None:
        """The stage of that index, else the best one."""
        return next((stage for stage in self.stages if str(stage.index) == asked), self.best)

    @property
    def devices(self) -> dict[str, str]:
        """Names of the power devices by id, with their pools where accelerators share the work."""
        return {
            device["id"]: f"{device['pool']}: {device['name']}" if device.get("pool") else device["name"]
            for device in self._devices
        }

    @property
    def modelled_devices(self) -> frozenset[str]:
        """Ids of the power devices that no instrument reads: a model works their power out."""
        return frozenset(device["id"] for device in self._devices if device.get("mark") == Mark.MODELLED)

    @property
    def _devices(self) -> list[dict[str, Any]]:
        """Those of the server, then those of a load host on another machine."""
        power = self.summary.get("power") or {}
        client = power.get("client") or {}
        own = [{**device, "name": f"{device['name']} (load host)"} for device in client.get("devices", [])]
        return [*power.get("devices", []), *own]


def title(run: Run) -> str:
    """Such as "smollm2-135m on CPU, demo, 12 Nov"."""
    model = (run.spec.get("target") or {}).get("model") or run.endpoint.model
    hardware = run.setup.get("hardware") or run.deployment.hardware
    when = run.started_at or run.queued_at
    return visible(f"{model} on {hardware}, {run.asks}, {when:%-d %b}")


def interval_text(interval: tuple[float, float] | None, unit: str) -> str:
    """Such as "118 to 131 ms"; empty without an interval."""
    if interval is None:
        return ""
    (low, low_unit), (high, high_unit) = display(interval[0], unit), display(interval[1], unit)
    text = f"{low} to {high} {high_unit}" if low_unit == high_unit else f"{low} {low_unit} to {high} {high_unit}"
    return text.replace("-", "−")


def headline(results: RunResults, stage: StageResults) -> list[Figure]:
    shown = [(key, p) for key, p in _HEADLINE if key != "goodput_per_s" or results.slo]
    return [_figure(results, stage, BY_KEY[key], statistic) for key, statistic in shown]


def _figure(results: RunResults, stage: StageResults, metric: Metric, statistic: str) -> Figure:
    number = stage.numbers.get((metric.key, statistic))
    whole = stage.numbers.get((metric.key, "mean"))
    interval = interval_text(stage.interval(metric.key, statistic), metric.unit)
    n = whole.n if whole else None
    return Figure(
        metric, statistic, number, interval, n, "" if number else why_missing(results, stage, metric, statistic)
    )


def why_missing(results: RunResults, stage: StageResults, metric: Metric, statistic: str) -> str:
    """In words for people; empty when nothing is known about it."""
    whole = stage.numbers.get((metric.key, "mean"))
    if metric.key == "wh_per_query_median" and ("wh_per_query", "mean") in stage.numbers:
        return "the run is too short to divide its energy among requests"
    if metric.key in ENERGY_METRICS:
        return _why_no_energy(results, stage)
    if metric.key.startswith("usd_") and not (stage.stage.cost or {}).get("usd_per_hour"):
        return "the deployment had no price when this ran"
    if whole and whole.n is not None and whole.n < PERCENTILE_MIN_N.get(statistic, 0):
        return f"too few samples for {statistic}: {whole.n}, at least {PERCENTILE_MIN_N[statistic]} are needed"
    if not stage.numbers:
        return "the stage did not reach its end"
    return "not observable in this stage" if stage.stage.ok else "no request ended well"


def _why_no_energy(results: RunResults, stage: StageResults) -> str:
    if stage.stage.energy is None and results.run.power_file:
        return "energy is not added up for a run that was cut off; its samples are kept"
    reasons = (stage.stage.energy or {}).get("reasons") or (results.summary.get("power") or {}).get("notes") or []
    return reasons[0]["text"] if reasons else "no power source was read"


def notices(results: RunResults, stage: StageResults | None) -> list[Notice]:
    """Verdict and warnings, the gravest first: of the run, then of the stage that is shown."""
    found = [*_run_notices(results), *(_stage_notices(stage, len(results.stages) == 1) if stage else [])]
    if over := money.notice(results.run):
        found.append(Notice("warning", over))
    order = ("error", "warning", "info")
    return sorted(found, key=lambda notice: order.index(notice.level))


_LEADS = {
    Run.Status.FINISHED: "These numbers are not valid.",
    Run.Status.FAILED: "Nothing usable was measured.",
    Run.Status.LOST: "The worker vanished while it measured.",
    Run.Status.CANCELLED: "Cancelled before it was done.",
}


def _run_notices(results: RunResults) -> list[Notice]:
    run = results.run
    said = [run.reason, *(reason["text"] for reason in results.summary.get("reasons") or [])]
    details = list(dict.fromkeys(sentence(text) for text in said if text))
    answers = [results.summary[name]["text"] for name in FINDINGS if results.summary.get(name)]
    answered = [Notice("info", text) for text in (*map(sentence, answers), *_energy_notes(results))]
    if run.valid:
        return answered + [Notice("info", text) for text in details]
    if numbers_are_valid(run) and any(stage.sound for stage in results.stages):
        return [Notice("warning", "Not every stage may be used; those marked ok may.", details)]
    status = Run.Status(run.status)
    return [Notice("warning" if status is Run.Status.CANCELLED else "error", _LEADS.get(status, ""), details)]


def _energy_notes(results: RunResults) -> list[str]:
    """What must be known to read the energy: whose it is, and of which models."""
    notes = (results.summary.get("power") or {}).get("notes") or []
    found = [note["text"] for note in notes if note["code"] == "gpu_shared"]
    models = (results.run.spec.get("workload") or {}).get("models") or []
    if len(models) > 1 and any(stage.stage.energy for stage in results.stages):
        found.append(f"Requests went to {len(models)} models: energy per query and per token is a mean over them.")
    return found


_STAGE_WORDS = {
    "client_limited": "was limited by the load machine: the server may be able to do more",
    "interrupted": "was interrupted: its numbers cover only a part",
    "failed": "failed",
}


def _stage_notices(stage: StageResults, alone: bool) -> list[Notice]:
    """``alone``: the run has no other stage, so that what is wrong with it has been said of the run."""
    stored, found = stage.stage, []
    reasons = [sentence(reason["text"]) for reason in stored.reasons]
    if not stage.sound and not alone:
        words = f"{stage.label} {_STAGE_WORDS.get(stored.verdict, stored.verdict)}"
        found.append(Notice("warning", sentence(words), reasons))
    elif reasons and stage.sound:
        found.append(Notice("info", f"{sentence(stage.label)[:-1]}: {' '.join(reasons)}"))
    for failure in stage.failures:
        text = f"{failure.count} of {stored.planned} requests: {failure.outcome}. {failure.help}"
        found.append(Notice("warning", text, [failure.example] if failure.example else []))
    if stage.numbers and 0 < stored.ok < FEW:
        words = f"Only {stored.ok} requests ended well at {stage.label}: percentiles above the median are missing."
        found.append(Notice("info", words))
    return found + _energy_notices(stored.energy or {})


def _energy_notices(energy: Mapping[str, Any]) -> list[Notice]:
    found = []
    if energy.get("short"):
        found.append(Notice("info", "The window is under 30 s: take its energy as a hint."))
    for instrument in energy.get("instruments") or []:
        if instrument.get("verdict") == "disagree":
            words = f"The energy counter and the power samples of {instrument['device']} disagree"
            found.append(Notice("warning", f"{words} (ratio {instrument['ratio']:.2f}): see the Energy tab."))
    return found


def sentence(text: str) -> str:
    """With a capital first and a stop last."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"


def waits_for(run: Run) -> Notice:
    """What a queued run waits for, and what to do if that lasts."""
    busy = Run.objects.filter(status=Run.Status.RUNNING, endpoint=run.endpoint).exclude(pk=run.pk).first()
    if busy is None and run.accelerator_group:
        busy = Run.objects.filter(status=Run.Status.RUNNING, accelerator_group=run.accelerator_group).first()
    if busy is not None:
        return Notice(
            "info",
            f"It waits for run {busy.pk}, which uses the same endpoint or hardware: two at once would spoil both.",
        )
    ahead = Run.objects.filter(status=Run.Status.QUEUED, endpoint=run.endpoint, pk__lt=run.pk).count()
    if ahead:
        return Notice(
            "info", f"{ahead} other {'run waits' if ahead == 1 else 'runs wait'} for this endpoint before it."
        )
    if run.dispatched_at is None:
        return Notice(
            "warning",
            "The message broker cannot be reached, so no worker knows of this run.",
            ["The run is kept and starts by itself when it is back. Check REDIS_URL, and that the broker runs."],
        )
    return Notice(
        "info",
        "It waits for a free bench worker.",
        ["If none is running, start one on the load host: celery -A observatory worker -Q bench -c 1"],
    )


def totals(stages: Sequence[StageResults]) -> dict[str, int]:
    """Counts over all stages: planned = ok + failed + cancelled + not_sent."""
    names = ("planned", "ok", "failed", "cancelled", "not_sent")
    return {name: sum(getattr(stage.stage, name) for stage in stages) for name in names}
