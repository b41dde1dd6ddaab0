"""The form of a benchmark. It is valid when the instrument's own specification says so, in the same words."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms

from observatory.benchmarks.models import Benchmark, WorkloadFile
from observatory.pages.benchmark_fields import CountsField, FileField, LengthField, LevelsField, ModelsField, RealField
from observatory.pages.benchmark_values import ONLY, asked, counts, field_of, shown
from observatory.runs import spec
from runners.sources import Agents, Conversations, Prefixes, Trace
from runners.spec import Images, Load, RunSpec, Search, SpecError, Workload
from runners.workload_files import FileKind

POWER_SOURCES = (
    ("auto", "auto"),
    ("nvml", "nvml (NVIDIA)"),
    ("amd", "amd (AMD GPUs)"),
    ("xpu", "xpu (Intel GPUs)"),
    ("rapl", "rapl (CPU counters)"),
    ("hwmon", "hwmon (Grace)"),
    ("ipmi", "ipmi (whole machine)"),
    ("estimate", "estimate (modelled)"),
    ("none", "none"),
)
KINDS = (
    ("synthetic", "Made-up prompts"),
    ("prefixes", "Made-up prompts that begin alike"),
    ("conversations", "Conversations of several turns"),
    ("agents", "Agents: calls that wait for each other"),
    ("prompts", "Prompts of a file"),
    ("sharegpt", "First questions of recorded chats"),
    ("trace", "A recorded trace"),
)
ARRIVALS = (
    ("closed", "Concurrency"),
    ("poisson", "Rate, at random"),
    ("constant", "Rate, evenly"),
    ("gamma", "Rate, in bursts"),
    ("replay", "Replay of a trace's times"),
)
GOALS = (
    ("", "Nothing: run each level"),
    ("slo", "The highest load that meets the bounds"),
    ("saturation", "Where throughput stops rising"),
)
ANSWERS = (("stream", "Streamed"), ("whole", "Whole: latency only"))
CHOICES = {"kind": KINDS, "arrivals": ARRIVALS, "find": GOALS, "answers": ANSWERS}
_LENGTH = "A number, or such as uniform:low=64,high=256, lognormal:mean=512,sd=256,high=4096, file:NAME."


def whole(label: str, default: int | None = None, text: str = "", least: int | None = None) -> forms.IntegerField:
    return forms.IntegerField(required=False, label=label, initial=default, help_text=text, min_value=least)


def real(label: str, default: float | None = None, text: str = "") -> RealField:
    return RealField(required=False, label=label, initial=default, help_text=text)


def details(benchmark: Benchmark) -> list[tuple[str, str]]:
    """(label, value) of all that is not as usual in its workload and load."""
    values = shown(benchmark.workload, benchmark.load)
    found = []
    for name, value in values.items():
        field = BenchmarkForm.base_fields[name]
        text = str(field.prepare_value(value))
        if value not in (None, "", [], field.initial) and text != str(field.initial) and counts(name, values):
            named = dict(CHOICES.get(name, ())).get(text, "yes" if value is True else text)
            found.append((str(field.label or name.capitalize()), named))
    return found


@dataclass(frozen=True)
class Shown:
    """A field as the page shows it; it counts only where the field ``chooser`` has one of ``values``."""

    field: forms.BoundField
    chooser: str
    values: str


@dataclass(frozen=True)
class Section:
    """``more`` is folded away until someone opens it."""

    legend: str
    fields: list[Shown]
    more: list[Shown]
    open: bool


class BenchmarkForm(forms.ModelForm):  # type: ignore[type-arg]
    power_source = forms.ChoiceField(
        choices=POWER_SOURCES, label="Power", help_text="auto takes the best that the load host has."
    )
    load_hosts = forms.IntegerField(
        min_value=1,
        max_value=256,
        initial=1,
        required=False,
        label="Load hosts",
        help_text="Bench workers that share the load, for more than one machine can send. 1 is enough for most.",
    )

    arrivals = forms.ChoiceField(
        choices=ARRIVALS,
        label="Kind of load",
        help_text="Concurrency keeps so many in flight; a rate sends whatever comes back.",
    )
    levels = LevelsField(
        help_text="Requests in flight, requests per second, or speeds of a replay. One stage each: 1, 4, 16. "
        "A search takes where it starts and, if you like, the most to try."
    )
    duration_s = real("Seconds per stage", text="A stage ends with its seconds or its requests, whichever comes first.")
    requests = whole("Requests per stage", text="p50 needs 7 requests, p90 44, p99 459.")
    warmup_s = real("Warm-up, seconds", Load.warmup_s, "Sent before each stage and left out of its numbers.")
    cv = real("Burstiness", Load.cv, "Standard deviation / mean of the gaps: 1 is as random as poisson, 2 is bursty.")
    find = forms.ChoiceField(
        choices=GOALS, required=False, label="Search for", help_text="A search chooses its levels by itself."
    )
    search_share = real("Share that meets them", Search.share, "0.95: 95 of 100 planned requests.")
    search_tolerance = real("Exact to", Search.tolerance, "0.1: the answer is within 10 %.")
    max_stages = whole("Stages at most", Search.max_stages)
    repeats = whole("Repeats", Load.repeats, "All levels so often, in turn, for intervals from run to run.")
    cooldown_s = real("Cool-down, seconds", Load.cooldown_s, "Load after measuring, so that it ends under full load.")
    ramp_from = real("Ramp from", text="The load rises from here to its level over the stage. Empty: no ramp.")
    max_in_flight = whole("In flight at most", Load.max_in_flight, "Caps a rate; a stage that hits the cap is marked.")
    drain_s = real("Wait for answers, seconds", Load.drain_s, "After a stage, for those that are still under way.")
    calibrate_s = real(
        "Calibration, seconds", Load.calibrate_s, "Per level, to measure the client's own error. 0: none."
    )

    run_s = real("Time limit, seconds", text="For all stages together; the run then stops and keeps what it has.")

    kind = forms.ChoiceField(choices=KINDS, required=False, label="What is sent")
    source_file = FileField(
        FileKind.PROMPTS, FileKind.CHATS, FileKind.MOONCAKE, FileKind.BURSTGPT, FileKind.AZURE,
        required=False, label="File", help_text="One of the workload files. Conversations may go without.",
    )  # fmt: skip
    input_tokens = LengthField(initial=Workload.input_tokens, label="Prompt tokens", required=False, help_text=_LENGTH)
    output_tokens = LengthField(
        initial=Workload.output_tokens,
        label="Answer tokens",
        required=False,
        help_text="Asked for exactly, where the server allows it.",
    )
    prefix_groups = whole("Groups", Prefixes.groups)
    prefix_tokens = whole("Tokens that a group shares", Prefixes.prefix_tokens, "A part of the prompt tokens.")
    prefix_zipf = real("Zipf exponent", Prefixes.zipf, "0 draws all groups alike; 1 favours the first.")
    turns = LengthField(initial=Conversations.turns, label="Turns", required=False, help_text="Of each conversation.")
    think_s = real("Think time, seconds", Conversations.think_s, "From an answer to the next question.")
    think_cv = real("Spread of think times", Conversations.think_cv, "0: all alike; 1: exponential.")
    every_s = real("Turn every, seconds", Conversations.every_s, "At most so often; 0: no schedule.")
    calls = LengthField(initial=Agents.calls, label="Calls", required=False, help_text="Requests of each task.")
    result_tokens = LengthField(initial=Agents.result_tokens, label="Tokens of a tool's result", required=False)
    tool_s = real("What a tool takes, seconds", Agents.tool_s)
    system_tokens = whole("System prompt, tokens", text="Alike in all. Empty: 512 for agents, none for conversations.")
    block_tokens = whole("Tokens of a block", Trace.block_tokens, "Behind each hash of a Mooncake trace.")
    input_sweep = CountsField(
        required=False, label="Sweep of prompt tokens", help_text="Lengths in turn at one load, such as 128, 1024."
    )
    answers = forms.ChoiceField(choices=ANSWERS, required=False, initial="stream", label="Answers come")
    choices = whole("Answers per request", Workload.choices)
    models = ModelsField(
        required=False, label="Models by weight", help_text="Instead of the endpoint's, one a line: lora-a = 1."
    )
    image_count = whole("Images per prompt", Images.count)
    image_width_px = whole("Image width, px", Images.width_px)
    image_height_px = whole("Image height, px", Images.height_px)
    temperature = real("Temperature", Workload.temperature)
    tokenizer = FileField(
        FileKind.TOKENIZER, required=False, label="Tokenizer", help_text="Exact lengths where the server cannot count."
    )
    let_stop = forms.BooleanField(required=False, label="Let the model end its answer early")
    seed = whole("Seed", Workload.seed, "The same seed gives the same lengths and arrivals.")

    class Meta:
        model = Benchmark
        fields = (
            "name",
            "deployment",
            "load_hosts",
            "slo_ttft_ms",
            "slo_tpot_ms",
            "slo_e2e_ms",
            "power_source",
        )
        labels = {
            "slo_ttft_ms": "TTFT at most, ms",
            "slo_tpot_ms": "TPOT at most, ms",
            "slo_e2e_ms": "Whole answer at most, ms",
        }

    groups: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
        ("What", ("name", "deployment"), ()),
        (
            "Load",
            ("arrivals", "levels", "cv", "find", "search_share", "search_tolerance", "max_stages", "duration_s",
             "requests", "warmup_s"),
            ("repeats", "cooldown_s", "ramp_from", "max_in_flight", "drain_s", "calibrate_s", "run_s",
             "load_hosts"),
        ),
        (
            "Workload",
            ("kind", "source_file", "input_tokens", "output_tokens", "prefix_groups", "prefix_tokens", "prefix_zipf",
             "turns", "think_s", "think_cv", "every_s", "calls", "result_tokens", "tool_s", "system_tokens",
             "block_tokens"),
            ("input_sweep", "answers", "choices", "models", "image_count", "image_width_px", "image_height_px",
             "temperature", "tokenizer", "let_stop", "seed"),
        ),
        ("Bounds: for goodput, and for the search (leave empty for none)",
         ("slo_ttft_ms", "slo_tpot_ms", "slo_e2e_ms"), ()),
        ("Energy", ("power_source",), ()),
    )  # fmt: skip

    def __init__(self, data: Any = None, *, instance: Benchmark, initial: dict[str, Any] | None = None) -> None:
        values = {**shown(instance.workload, instance.load), **(initial or {})}
        super().__init__(data, instance=instance, initial=values)

    @staticmethod
    def values_of(benchmark: Benchmark) -> dict[str, Any]:
        """What the form of a copy begins with: everything but the name."""
        own = [name for name in BenchmarkForm.Meta.fields if name != "name"]
        return {name: getattr(benchmark, name) for name in own} | shown(benchmark.workload, benchmark.load)

    def sections(self) -> Iterator[Section]:
        """What the page shows, in its order."""
        for legend, names, more in self.groups:
            told = any(name in self.errors or not self._usual(name) for name in more)
            yield Section(legend, self._shown(names), self._shown(more), told)

    def _usual(self, name: str) -> bool:
        """Whether a field holds what it holds when nobody touches it."""
        value, usual = self[name].value(), self.fields[name].prepare_value(self.fields[name].initial)
        return value in (None, "", False) or str(value) == str(usual)

    def _shown(self, names: tuple[str, ...]) -> list[Shown]:
        found = []
        for name in names:
            chooser, values = ONLY.get(name, ("", ()))
            found.append(Shown(self[name], chooser, " ".join(values)))
        return found

    def clean_load_hosts(self) -> int:
        return int(self.cleaned_data["load_hosts"] or 1)

    def clean_kind(self) -> str:
        return self.cleaned_data["kind"] or "synthetic"

    def clean(self) -> dict[str, Any]:
        """What was typed into fields that do not count is left alone."""
        cleaned = super().clean() or {}
        for name in [name for name in self.errors if not counts(name, cleaned)]:
            del self.errors[name]
        return cleaned

    def _post_clean(self) -> None:
        if not self.errors:
            file = WorkloadFile.objects.filter(name=self.cleaned_data.get("source_file", "")).first()
            self.instance.workload, self.instance.load = asked(self.cleaned_data, file.kind if file else "")
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            self.check()

    def check(self) -> None:
        """Puts the specification's complaint at the field that it is about; keeps the workload and load in full."""
        try:
            plain = self.spec().to_json()
        except SpecError as error:
            path, _, advice = str(error).partition(": ")
            words, field = advice or path, field_of(path, self.cleaned_data["kind"])
            self.add_error(field if field in self.fields else None, words[:1].upper() + words[1:])
        else:
            self.instance.workload, self.instance.load = plain["workload"], plain["load"]

    def spec(self) -> RunSpec:
        """What would be run. Raises SpecError."""
        return spec.build(self.instance)
