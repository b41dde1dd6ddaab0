"""The form of a benchmark. It is valid when the instrument's own specification says so, in the same words."""

from math import isfinite, nan
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from observatory.benchmarks.models import Benchmark
from observatory.runs import spec
from runners.spec import RunSpec, SpecError

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
ARRIVALS = (
    ("closed", "Concurrency"),
    ("poisson", "Rate, at random"),
    ("constant", "Rate, evenly"),
)
#: Where a complaint of the specification belongs when its own name is not a field of the form.
_FIELDS = {"load": "requests", "load.arrivals": "arrivals", "power.source": "power_source", "shard.count": "load_hosts"}


class LevelsField(forms.CharField):
    """Numbers between commas, such as 1, 4, 16."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(f"{level:g}" for level in value) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> list[float]:
        text = super().clean(value).replace(",", " ")
        try:
            levels = [float(part) for part in text.split()]
        except ValueError:
            levels = [nan]
        if not all(map(isfinite, levels)):
            raise ValidationError("Give numbers between commas, such as 1, 4, 16.")
        if len(levels) > 32:
            raise ValidationError("At most 32 levels; each one becomes a stage of the run.")
        return levels


class BenchmarkForm(forms.ModelForm):  # type: ignore[type-arg]
    levels = LevelsField(
        help_text="Requests in flight, or requests per second. One stage each, in this order: 1, 4, 16."
    )
    power_source = forms.ChoiceField(
        choices=POWER_SOURCES, label="Power", help_text="auto takes the best that the load host has."
    )
    arrivals = forms.ChoiceField(
        choices=ARRIVALS,
        label="Kind",
        help_text="Concurrency keeps so many in flight; a rate sends whatever comes back (poisson or constant).",
    )
    load_hosts = forms.IntegerField(
        min_value=1,
        max_value=256,
        initial=1,
        required=False,
        label="Load hosts",
        help_text="Bench workers that share the load, for more than one machine can send. 1 is enough for most.",
    )

    class Meta:
        model = Benchmark
        fields = (
            "name",
            "deployment",
            "arrivals",
            "levels",
            "duration_s",
            "requests",
            "warmup_s",
            "load_hosts",
            "input_tokens",
            "output_tokens",
            "slo_ttft_ms",
            "slo_tpot_ms",
            "slo_e2e_ms",
            "power_source",
            "seed",
        )
        labels = {
            "duration_s": "Seconds per stage",
            "requests": "Requests per stage",
            "warmup_s": "Warm-up, seconds",
            "input_tokens": "Prompt tokens",
            "output_tokens": "Answer tokens",
            "slo_ttft_ms": "TTFT at most, ms",
            "slo_tpot_ms": "TPOT at most, ms",
            "slo_e2e_ms": "Whole answer at most, ms",
        }
        help_texts = {
            "duration_s": "A stage ends with its seconds or its requests, whichever comes first.",
            "requests": "p50 needs 7 requests, p90 44, p99 459.",
            "warmup_s": "Sent before each stage and left out of its numbers.",
            "input_tokens": "Each prompt is unique, so that no prefix cache flatters.",
            "output_tokens": "Asked for exactly, where the server allows it.",
            "seed": "The same seed gives the same lengths and arrivals.",
        }

    groups = (
        ("What", ("name", "deployment")),
        ("Load", ("arrivals", "levels", "duration_s", "requests", "warmup_s", "load_hosts")),
        ("Workload", ("input_tokens", "output_tokens", "seed")),
        ("Bounds for goodput (leave empty for none)", ("slo_ttft_ms", "slo_tpot_ms", "slo_e2e_ms")),
        ("Energy", ("power_source",)),
    )

    def fieldsets(self) -> list[tuple[str, list[forms.BoundField]]]:
        """(legend, fields) in the order in which the page shows them."""
        return [(legend, [self[name] for name in names]) for legend, names in self.groups]

    def clean_load_hosts(self) -> int:
        return int(self.cleaned_data["load_hosts"] or 1)

    def _post_clean(self) -> None:
        super()._post_clean()  # type: ignore[misc]
        if not self.errors:
            self.check()

    def check(self) -> None:
        """Puts the specification's complaint at the field that it is about."""
        try:
            self.spec()
        except SpecError as error:
            path, _, advice = str(error).partition(": ")
            words = advice or path
            self.add_error(self._field(path), words[:1].upper() + words[1:])

    def spec(self) -> RunSpec:
        """What would be run. Raises SpecError."""
        return spec.build(self.instance)

    def _field(self, path: str) -> str | None:
        last = path.rpartition(".")[2]
        for name in (_FIELDS.get(path, ""), last, f"slo_{last}"):
            if name in self.fields:
                return name
        return None
