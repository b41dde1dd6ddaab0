"""Which runs are listed: every filter is in the URL and shown as a chip that takes it away again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import django_filters
from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.http import QueryDict

from observatory.benchmarks.models import Benchmark
from observatory.catalog.models import Deployment, Endpoint
from observatory.runs.models import Run

_LONGEST_ID = 18
_DATE = forms.DateInput(attrs={"type": "date"})


@dataclass(frozen=True)
class Chip:
    """One filter in words, and the query string without it."""

    text: str
    without: str


class _Rows(django_filters.fields.ModelMultipleChoiceField):  # type: ignore[misc]
    def _check_values(self, value: Any) -> Any:
        """A number that no database can hold is no row, as any other that is not there."""
        for key in value or ():
            if len(str(key)) > _LONGEST_ID:
                raise ValidationError(
                    self.error_messages["invalid_choice"], code="invalid_choice", params={"value": key}
                )
        return super()._check_values(value)


class _RowsFilter(django_filters.ModelMultipleChoiceFilter):  # type: ignore[misc]
    field_class = _Rows


def _many(kind: Any, **options: Any) -> Any:
    """Boxes of which any may be ticked; all are facts of the run itself, so that no row can come twice."""
    return kind(widget=forms.CheckboxSelectMultiple, distinct=False, **options)


class RunFilter(django_filters.FilterSet):  # type: ignore[misc]
    q = django_filters.CharFilter(method="words", label="Text")
    since = django_filters.DateFilter("queued_at", lookup_expr="date__gte", label="From", widget=_DATE)
    until = django_filters.DateFilter("queued_at", lookup_expr="date__lte", label="To", widget=_DATE)
    status = _many(django_filters.MultipleChoiceFilter, choices=Run.Status.choices)
    trigger = _many(django_filters.MultipleChoiceFilter, choices=Run.Trigger.choices, label="Started by")
    benchmark = _many(_RowsFilter, queryset=Benchmark.objects.only("name"))
    deployment = _many(_RowsFilter, queryset=Deployment.objects.only("name"))
    endpoint = _many(_RowsFilter, queryset=Endpoint.objects.only("name"))

    class Meta:
        model = Run
        fields = ("q", "since", "until", "status", "trigger", "benchmark", "deployment", "endpoint")

    def words(self, found: QuerySet[Run], name: str, text: str) -> QuerySet[Run]:
        """Every word occurs in a name, the model, the reason, a tag; or is the run's number."""
        for word in text.split():
            anywhere = (
                Q(benchmark__name__icontains=word)
                | Q(deployment__name__icontains=word)
                | Q(endpoint__model__icontains=word)
                | Q(reason__icontains=word)
                | Q(tags__icontains=word)
            )
            if word.isascii() and word.isdigit() and len(word) <= _LONGEST_ID:
                anywhere |= Q(pk=int(word))
            found = found.filter(anywhere)
        return found

    def chips(self) -> list[Chip]:
        """The filters that are on."""
        return [chip for name in self.form.cleaned_data for chip in self._chips(name)]

    def _chips(self, name: str) -> Iterator[Chip]:
        value = self.form.cleaned_data[name]
        label = self.form.fields[name].label or name
        if not value:
            return
        if isinstance(value, list | QuerySet):
            for item in value:
                yield Chip(f"{label}: {item}", _without(self.data, name, str(getattr(item, "pk", item))))
        else:
            yield Chip(f"{label}: {value}", _without(self.data, name))

    def troubles(self) -> list[str]:
        """What is wrong with the filters in the URL; such filters are left out."""
        return [f"{name}: {text}" for name, texts in self.form.errors.items() for text in texts]


def _without(data: Any, name: str, item: str | None = None) -> str:
    left: QueryDict = data.copy()
    left.setlist(name, [value for value in left.getlist(name) if item is not None and value != item])
    left.pop("page", None)
    return f"?{left.urlencode()}"
