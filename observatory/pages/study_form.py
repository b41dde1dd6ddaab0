"""New studies: a ready-made one, or arms of one's own."""

import json
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.forms.formsets import formset_factory
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from observatory.catalog.models import Deployment
from observatory.pages.access import Request
from observatory.pages.benchmark_form import POWER_SOURCES
from observatory.quality import sets
from observatory.runs.models import Run
from observatory.studies import design, ready_made, trials
from observatory.studies.design import MAX_ARMS, MIN_ARMS, ArmPlan
from observatory.studies.measures import DesignError
from observatory.studies.models import Study
from observatory.studies.ready_made import READY_MADE
from runners.metrics import BY_KEY, METRICS, Better, Shape
from runners.quality import tasks

ARRIVALS = (("closed", "Concurrency"), ("poisson", "Rate, at random"), ("constant", "Rate, evenly"))
SHOWN_ARMS = 4


def _measures() -> list[tuple[str, str]]:
    found = []
    for metric in METRICS:
        if metric.better is not Better.NEITHER:
            statistics = ("p50", "p90", "p99", "mean", "max") if metric.shape is Shape.DISTRIBUTION else ("mean",)
            found += [
                (f"{metric.key} {name}", f"{metric.label} {name}" if len(statistics) > 1 else metric.label)
                for name in statistics
            ]
    return found


class JsonField(forms.CharField):
    """An object, or nothing."""

    widget = forms.Textarea(attrs={"rows": 2, "class": "mono"})

    def clean(self, value: Any) -> dict[str, Any]:
        text = super().clean(value)
        if not text:
            return {}
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ValidationError(f"This is no JSON: {error}.") from None
        if not isinstance(found, dict):
            raise ValidationError('Give an object, such as {"load": {"levels": [8]}}.')
        return found

    def prepare_value(self, value: Any) -> Any:
        return json.dumps(value) if isinstance(value, dict) and value else value or ""


class ArmForm(forms.Form):
    name = forms.CharField(max_length=36, label="Arm")
    deployment = forms.ModelChoiceField(Deployment.objects.all())
    spec = JsonField(
        required=False,
        label="What differs",
        help_text='Over what all are asked, as JSON: {"load": {"levels": [8]}}. Empty: nothing.',
    )

    def plan(self) -> ArmPlan:
        values = self.cleaned_data
        return ArmPlan(values["name"], values["deployment"], values["spec"])


def _arm_forms(request: Request, known: list[dict[str, Any]]) -> Any:
    """Rows for the arms that are known, and empty ones."""
    spare = max(1, SHOWN_ARMS - len(known))
    rows = formset_factory(ArmForm, extra=spare, max_num=MAX_ARMS, validate_max=True, absolute_max=MAX_ARMS)
    return rows(request.POST or None, prefix="arms", initial=known)


class StudyForm(forms.ModelForm):  # type: ignore[type-arg]
    measure = forms.ChoiceField(choices=_measures, label="Decides by", initial="ttft_ms p50")
    also = forms.MultipleChoiceField(
        choices=_measures, required=False, label="Also shown", help_text="Energy and cost per query always are."
    )
    input_tokens = forms.IntegerField(min_value=1, initial=128, label="Prompt tokens")
    output_tokens = forms.IntegerField(min_value=1, initial=64, label="Answer tokens")
    arrivals = forms.ChoiceField(choices=ARRIVALS, label="Kind")
    level = forms.FloatField(min_value=0, initial=4, label="Load", help_text="Requests in flight, or per second.")
    requests = forms.IntegerField(min_value=1, initial=40, label="Requests per run", help_text="p50 needs 7, p90 44.")
    warmup_s = forms.FloatField(min_value=0, initial=2, label="Warm-up, seconds")
    power_source = forms.ChoiceField(choices=POWER_SOURCES, label="Power")
    task_set = forms.ChoiceField(
        required=False,
        label="Questions",
        help_text="Put to each arm once, after its repeats: does what is faster still answer as well?",
    )
    questions = forms.IntegerField(
        min_value=1, required=False, label="How many", help_text="Evenly spread over the set; empty: all."
    )
    more = JsonField(required=False, label="More", help_text="Of the specification, as JSON; it wins over the fields.")

    class Meta:
        model = Study
        fields = ("name", "question", "smallest_effect_percent", "repeats", "order", "seed")
        labels = {"smallest_effect_percent": "Smallest effect that matters, %"}
        help_texts = {
            "question": "One that a number can answer.",
            "repeats": "Each arm runs so often. Below 3 nothing is decided.",
            "smallest_effect_percent": "A difference that is surely smaller is called none.",
            "order": "The arms of a repeat run one after the other; the order cancels slow drift.",
            "seed": "Of the order at random.",
        }
        widgets = {"question": forms.Textarea(attrs={"rows": 2})}

    groups = (
        ("Question", ("name", "question")),
        ("Answer", ("measure", "smallest_effect_percent", "also")),
        ("Repeats", ("repeats", "order", "seed")),
        ("What every arm is asked", ("input_tokens", "output_tokens", "arrivals", "level", "requests", "warmup_s")),
        ("Quality", ("task_set", "questions")),
        ("Energy and the rest", ("power_source", "more")),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.fields["task_set"]
        assert isinstance(chosen, forms.ChoiceField)  # noqa: S101
        chosen.choices = [("", "none"), *((name, name) for name in sets.names())]

    def fieldsets(self) -> list[tuple[str, list[forms.BoundField]]]:
        """(legend, fields) in the order in which the page shows them."""
        return [(legend, [self[name] for name in names]) for legend, names in self.groups]

    def study(self) -> Study:
        """The study that the fields describe."""
        values = self.cleaned_data
        study: Study = self.instance
        chosen = list(dict.fromkeys([values["measure"], *values["also"]]))
        study.measures = [dict(zip(("metric", "statistic"), item.split(" "), strict=True)) for item in chosen]
        spec: dict[str, Any] = {
            "workload": {name: values[name] for name in ("input_tokens", "output_tokens")},
            "load": {
                "arrivals": values["arrivals"],
                "levels": [values["level"]],
                **{name: values[name] for name in ("requests", "warmup_s")},
            },
            "power": {"source": values["power_source"]},
        }
        for section, fields in values["more"].items():
            spec[section] = {**spec.get(section, {}), **fields} if isinstance(fields, dict) else fields
        study.spec = spec
        study.quality = _quality(values["task_set"], values["questions"])
        return study


def _quality(task_set: str, questions: int | None) -> dict[str, Any]:
    return {"task_set": task_set, **({"questions": questions} if questions else {})} if task_set else {}


@login_required
def choose(request: Request) -> HttpResponse:
    """Ready-made studies to choose from."""
    return render(request, "studies/choose.html", {"ready": READY_MADE})


@login_required
def ready(request: Request, slug: str) -> HttpResponse:
    """One ready-made study: what it asks, and a button that makes it."""
    found = ready_made.BY_SLUG.get(slug)
    if found is None:
        raise Http404(f"There is no ready-made study called {slug}.")
    short = request.POST.get("form") == "short"
    if request.method == "POST":
        found = found.asking("quality" in request.POST)
        made = _made(request, found.shortened() if short else found, request.POST.get("name", "").strip())
        if made:
            return made
    measure = found.measures[0]
    context = {
        "ready": found,
        "name": request.POST.get("name") or _free_name(found.title),
        "short": short,
        "decides": f"{BY_KEY[measure['metric']].label} {measure.get('statistic', '')}",
    }
    return render(request, "studies/ready.html", context)


def _made(request: Request, chosen: ready_made.ReadyMade, name: str) -> HttpResponse | None:
    """Where to go next; None when it could not be made, and the user is told why."""
    try:
        if not name or len(name) > 60:
            raise DesignError("name", "Give it a name of at most 60 characters.")
        study = ready_made.make(chosen, name, request.user)
    except DesignError as error:
        messages.error(request, f"Not made. {error}")
        return None
    return _started(request, study)


def _started(request: Request, study: Study) -> HttpResponse:
    """To its page, started when the button said so."""
    return redirect(trials.start(study, Run.Trigger.PAGE, request.user) if "start" in request.POST else study)


def _free_name(title: str) -> str:
    taken = set(Study.objects.values_list("name", flat=True))
    return next(name for name in (title, *(f"{title} {n}" for n in range(2, 10_000))) if name not in taken)


@login_required
def own(request: Request) -> HttpResponse:
    """A study of arms of one's own; ``?copy=`` begins from another one."""
    copied = _copied(request.GET.get("copy", ""))
    form = StudyForm(request.POST or None, instance=Study(created_by=request.user), initial=_initial(copied))
    arms = _arm_forms(request, _arms(copied))
    if request.method == "POST" and form.is_valid() and arms.is_valid():
        study = form.study()
        _carry_over(study, copied)
        try:
            return _started(
                request, design.create(study, _plans([row.plan() for row in arms if row.cleaned_data], copied))
            )
        except DesignError as error:
            form.add_error(error.field if error.field in form.fields else None, str(error))
    context = {
        "form": form,
        "arms": arms,
        "least": MIN_ARMS,
        "deployments": Deployment.objects.exists(),
        "back": copied.get_absolute_url() if copied else reverse("study-new"),
    }
    return render(request, "studies/form.html", context)


def _copied(text: str) -> Study | None:
    known = text.isascii() and text.isdigit() and len(text) < 19
    return Study.objects.filter(pk=text).first() if known else None


def _initial(copied: Study | None) -> dict[str, Any]:
    if copied is None:
        return {}
    spec = copied.spec
    workload, load = spec.get("workload", {}), spec.get("load", {})
    fields = {**{name: value for name, value in workload.items() if isinstance(value, int)}, **load}
    measures = [f"{item['metric']} {item.get('statistic', 'mean')}" for item in copied.measures]
    return {
        **{name: getattr(copied, name) for name in StudyForm.Meta.fields if name != "name"},
        "name": _free_name(copied.name),
        **{
            name: fields[name]
            for name in ("input_tokens", "output_tokens", "arrivals", "requests", "warmup_s")
            if name in fields
        },
        "level": (load.get("levels") or [1])[0],
        "power_source": spec.get("power", {}).get("source", "auto"),
        "measure": measures[0],
        "also": measures[1:],
        "more": _beyond_fields(spec),
        "task_set": copied.quality.get("task_set", tasks.BUILT_IN) if copied.quality else "",
        "questions": copied.quality.get("questions"),
    }


_OF_FIELDS = {
    "workload": ("input_tokens", "output_tokens"),
    "load": ("arrivals", "levels", "requests", "warmup_s"),
    "power": ("source",),
}


def _beyond_fields(spec: dict[str, Any]) -> dict[str, Any]:
    """What of a specification the form has no field for; lengths that vary among it."""
    found = {
        section: {
            name: value
            for name, value in fields.items()
            if name not in _OF_FIELDS.get(section, ()) or isinstance(value, dict)
        }
        for section, fields in spec.items()
    }
    return {section: fields for section, fields in found.items() if fields}


def _arms(copied: Study | None) -> list[dict[str, Any]]:
    found = copied.arms.all() if copied else []
    return [{"name": arm.name, "deployment": arm.deployment, "spec": arm.spec} for arm in found]


def _carry_over(study: Study, copied: Study | None) -> None:
    """What the form has no field for, from the study that was copied."""
    if copied:
        for name in ("template", "prediction", "factor", "look_for", "limits"):
            setattr(study, name, getattr(copied, name))
        if study.quality:
            kept = {name: copied.quality[name] for name in ("concurrency", "output_tokens") if name in copied.quality}
            study.quality = kept | study.quality


def _plans(plans: list[ArmPlan], copied: Study | None) -> list[ArmPlan]:
    """Arms that keep their name keep their place on the factor and their theory."""
    known = {arm.name: arm for arm in copied.arms.all()} if copied else {}
    return [
        ArmPlan(plan.name, plan.deployment, plan.spec, known[plan.name].theory, known[plan.name].x)
        if plan.name in known
        else plan
        for plan in plans
    ]
