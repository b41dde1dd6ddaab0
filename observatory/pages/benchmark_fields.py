"""Fields of the benchmark form that take more than one number in a line."""

from dataclasses import asdict
from math import isfinite, nan
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from observatory.benchmarks.models import WorkloadFile
from runners.sources import Length, length_option, parse_length
from runners.spec import SpecError
from runners.strict_json import build
from runners.workload_files import FileKind


def number(value: float) -> str:
    """Exact, without a needless ".0"."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


class RealField(forms.FloatField):
    """A number that is shown as people write it."""

    def prepare_value(self, value: Any) -> Any:
        return number(value) if isinstance(value, float) else value


class LevelsField(forms.CharField):
    """Numbers between commas, such as 1, 4, 16."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(map(number, value)) if isinstance(value, list | tuple) else value

    def clean(self, value: Any) -> list[float]:
        try:
            levels = [float(part) for part in super().clean(value).replace(",", " ").split()]
        except ValueError:
            levels = [nan]
        if not all(map(isfinite, levels)):
            raise ValidationError("Give numbers between commas, such as 1, 4, 16.")
        return levels


class CountsField(LevelsField):
    """Whole numbers between commas; may be empty."""

    def clean(self, value: Any) -> list[Any]:
        counts = super().clean(value)
        if any(not count.is_integer() for count in counts):
            raise ValidationError("Give whole numbers between commas, such as 128, 1024.")
        return [int(count) for count in counts]


class LengthField(forms.CharField):
    """A token length: fixed, or from what it is drawn; JSON of ``runners.sources.Tokens`` in Python."""

    def prepare_value(self, value: Any) -> Any:
        try:
            return length_option(build(Length, value, "length")) if isinstance(value, dict) else value
        except SpecError:
            return ""

    def clean(self, value: Any) -> Any:
        text = super().clean(value).strip()
        if not text:
            return None
        try:
            length = parse_length(text)
        except (ValueError, OverflowError) as error:
            raise ValidationError(f"{str(error)[:1].upper()}{str(error)[1:]}.") from None
        return length if isinstance(length, int) else asdict(length)


class ModelsField(forms.CharField):
    """A model or adapter a line, with its weight behind it: base = 3."""

    widget = forms.Textarea(attrs={"rows": 2})

    def prepare_value(self, value: Any) -> Any:
        if not isinstance(value, list | tuple):
            return value
        return "\n".join(f"{share.get('name')} = {number(share.get('weight', 1))}" for share in value)

    def clean(self, value: Any) -> list[dict[str, Any]]:
        return [self._share(line) for line in super().clean(value).splitlines() if line.strip()]

    def _share(self, line: str) -> dict[str, Any]:
        name, found, weight = line.rpartition("=")
        try:
            return {"name": name.strip(), "weight": float(weight)} if found else {"name": line.strip(), "weight": 1.0}
        except ValueError:
            raise ValidationError(f"{line.strip()!r}: write a name and its weight, such as lora-a = 1.") from None


class FileField(forms.ChoiceField):
    """A workload file by name, of one of the kinds."""

    def __init__(self, *kinds: FileKind, **options: Any) -> None:
        self._kinds = kinds
        super().__init__(choices=self._listed, **options)

    def _listed(self) -> list[tuple[str, Any]]:
        files = WorkloadFile.objects.filter(kind__in=self._kinds).values_list("kind", "name")
        groups = {kind: [(name, name) for of, name in files if of == kind] for kind in self._kinds}
        listed = [(kind.value, names) for kind, names in groups.items() if names]
        return [("", "none"), *(listed if len(self._kinds) > 1 else [one for _, names in listed for one in names])]
