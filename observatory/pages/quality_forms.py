"""Forms of evaluations, uploaded results and task sets."""

from typing import Any

from django import forms

from observatory.catalog.models import Deployment
from observatory.quality import sets
from observatory.runs.models import Run
from runners.quality import lmeval, tasks
from runners.quality.spec import QualitySpec

_MEGABYTE = 1_000_000


class OfDeployment(forms.Form):
    """What belongs to a deployment, and perhaps to one of its load runs."""

    deployment = forms.ModelChoiceField(Deployment.objects.all(), empty_label=None)
    run = forms.IntegerField(
        min_value=1,
        max_value=2**63 - 1,
        required=False,
        label="Load run",
        help_text="Number of the run that this quality stands beside; empty: the deployment's newest.",
    )

    def clean_run(self) -> Run | None:
        number = self.cleaned_data["run"]
        if number is None:
            return None
        found = Run.objects.filter(pk=number, kind=Run.Kind.LOAD).first()
        if found is None:
            raise forms.ValidationError(f"There is no load run {number}. Take a number from the list of runs.")
        return found


class EvaluationForm(OfDeployment):
    task_set = forms.ChoiceField(help_text="Only results of the same set are compared.")
    reference = forms.ModelChoiceField(
        Deployment.objects.all(),
        required=False,
        empty_label="none",
        help_text="Its newest answers to the same set are compared with these, now or as soon as there are some.",
    )
    concurrency = forms.IntegerField(
        min_value=1,
        max_value=512,
        initial=QualitySpec.concurrency,
        help_text="Questions at a time. Batches of other sizes may change answers slightly: keep it the same.",
    )
    output_tokens = forms.IntegerField(
        min_value=1,
        max_value=100_000,
        initial=QualitySpec.output_tokens,
        help_text="Longest answer, where a task does not say. Reasoning needs more.",
    )
    confirm_usd = forms.CharField(
        required=False,
        label="Confirm, $",
        help_text="Where the endpoint charges by the token and a refusal asks for it.",
    )

    field_order = ("deployment", "task_set", "reference", "run", "concurrency", "output_tokens", "confirm_usd")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["task_set"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = [(name, name) for name in sets.names()]


class _File(forms.FileField):
    """A file of bounded size, as bytes."""

    def __init__(self, most_bytes: int, **options: Any) -> None:
        super().__init__(**options)
        self.most_bytes = most_bytes

    def clean(self, *args: Any, **kwargs: Any) -> Any:
        found = super().clean(*args, **kwargs)
        if found and found.size > self.most_bytes:
            raise forms.ValidationError(
                f"The file has {found.size / _MEGABYTE:.0f} MB; at most {self.most_bytes / _MEGABYTE:.0f}."
            )
        return found


class ImportForm(OfDeployment):
    file = _File(
        lmeval.MAX_BYTES,
        label="Results of lm-eval",
        help_text="results_….json as the tool wrote it. Its model arguments are not kept.",
    )

    field_order = ("deployment", "file", "run")


class TaskSetForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="Its results are shown under this name.")
    file = _File(tasks.MAX_BYTES, label="Task lines", help_text="JSONL, a question a line (docs/quality.md).")
