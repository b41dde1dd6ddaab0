"""Pages of theory: an index, and for each calculator inputs, plots, results and what they rest on.

The URL holds all inputs. A change of one asks for the results anew and replaces the URL.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpResponse, HttpResponseBase, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_POST

from observatory.catalog import theory_facts
from observatory.pages import charts, theory_charts
from observatory.pages.access import Request, staff_required
from observatory.pages.twins import Row, answer
from observatory.theory import model_files, registry
from observatory.theory.calculator import Calculator, Fault, Refused, place
from observatory.theory.fields import Entry, columns, plain, written

_INDEX = ("name", "title", "subject", "summary", "source")
_SHEET = ("part", "row", "name", "label", "value", "unit")
_NOTHING = charts.Chart(None, note="These inputs give no result: see what is wrong beside them.")


@login_required
def index(request: Request, form: str = "html") -> HttpResponseBase:
    """Every calculator, by subject."""
    found = registry.CALCULATORS
    subjects = [(subject, list(group)) for subject, group in groupby(found, key=lambda item: item.subject)]
    rows = [{name: getattr(item, name) for name in _INDEX} for item in found]
    return answer(request, form, "theory/index.html", {"subjects": subjects}, rows=lambda: rows, columns=_INDEX)


@login_required
def calculator(request: Request, calculator: str, form: str = "html") -> HttpResponseBase:
    """One calculator. ``?deployment=``, ``?accelerator=`` and ``?model=`` lead to it filled with their numbers."""
    found = _find(calculator)
    given = _given(request)
    sources = {key: request.GET.get(key, "") for key in theory_facts.SOURCES}
    if any(sources.values()):
        known = {key: text for key, text in given.items() if key in {entry.name for entry in found.entries}}
        return HttpResponseRedirect(f"{request.path}?{urlencode(theory_facts.fill(found, known, sources))}")
    worked = work(found, given)
    if form != "html":
        return _twin(request, found, worked, form)
    if request.htmx:
        return render(request, "theory/result.html", {"calculator": found, "worked": worked, "swapped": True})
    context = {
        "calculator": found,
        "worked": worked,
        "groups": _groups(found, given, worked),
        "sources": theory_facts.choices(found),
        "plots": plot_titles(found.name),
    }
    return render(request, "theory/calculator.html", context, status=422 if worked.faults else 200)


@login_required
def chart(request: Request, calculator: str, index: int) -> HttpResponse:
    """A plot as JSON: figure (null when there is nothing to draw), table, note."""
    found = _find(calculator)
    worked = work(found, _given(request))
    if index >= len(plot_titles(found.name)):
        raise Http404(f"{calculator} has no plot {index}.")
    if worked.outputs is None:
        made = _NOTHING
    else:
        made = theory_charts.chart(found.plots(worked.inputs, worked.outputs)[index])
    return JsonResponse(made.to_json(), json_dumps_params={"allow_nan": False})


@staff_required
@require_POST
def upload(request: Request, calculator: str) -> HttpResponseRedirect:
    """Keeps a model file and leads to the calculator with it."""
    found, given = _find(calculator), request.FILES.get("upload")
    address = reverse("theory-calculator", args=[found.name])
    if not found.files:
        raise Http404(f"{found.name} takes no files.")
    if not isinstance(given, UploadedFile):
        messages.error(request, "No file came. Choose one that ends with .gguf or .safetensors.")
        return HttpResponseRedirect(address)
    try:
        kept = model_files.keep(given.name or "", given.chunks())
    except Refused as error:
        messages.error(request, " ".join(f"{fault.problem} {fault.fix}" for fault in error.faults))
        return HttpResponseRedirect(address)
    return HttpResponseRedirect(f"{address}?{urlencode({'file': kept})}")


@cache
def plot_titles(name: str) -> tuple[str, ...]:
    """The plots of a calculator; they are as many whatever the inputs."""
    found = registry.BY_NAME[name]
    inputs = found.read({})
    return tuple(plot.title for plot in found.plots(inputs, found.run(inputs)))


@dataclass(frozen=True)
class Result:
    """An output as a page shows it."""

    name: str
    label: str
    help: str
    unit: str
    value: Any
    about: Any


@dataclass(frozen=True)
class Sheet:
    """A table among the outputs."""

    name: str
    label: str
    help: str
    header: tuple[Any, ...]
    rows: list[list[tuple[Any, Any]]]


@dataclass(frozen=True)
class Worked:
    """What came of the inputs: outputs, or faults."""

    inputs: Any
    outputs: Any
    faults: tuple[Fault, ...]
    results: list[Result]
    sheets: list[Sheet]
    query: str
    command: str

    @property
    def words(self) -> dict[str, str]:
        """By input, what is wrong with it."""
        return {fault.field: f"{fault.problem} {fault.fix}" for fault in self.faults}


def work(found: Calculator[Any, Any], given: Mapping[str, str]) -> Worked:
    """Inputs from a URL to everything that a page shows of the result."""
    try:
        inputs = found.read(given)
        outputs = found.run(inputs)
    except Refused as error:
        return Worked(None, None, error.faults, [], [], "", "")
    taken = {entry.name: getattr(inputs, entry.name) for entry in found.entries}
    changed = {name: written(value) for name, value in taken.items() if value != found.entry(name).default}
    words = " ".join(f"{name}={text}" if " " not in text else f"'{name}={text}'" for name, text in changed.items())
    return Worked(
        inputs,
        outputs,
        (),
        _results(found, outputs),
        _sheets(found, outputs),
        urlencode({name: written(value) for name, value in taken.items()}),
        f"manage.py calc {found.name} {words}".strip(),
    )


def _results(found: Calculator[Any, Any], outputs: Any) -> list[Result]:
    return [
        Result(item.name, item.about.label, item.about.help, item.about.unit, getattr(outputs, item.name), item.about)
        for item in found.columns
        if item.row is None and getattr(outputs, item.name) != ""
    ]


def _sheets(found: Calculator[Any, Any], outputs: Any) -> list[Sheet]:
    return [
        Sheet(item.name, item.about.label, item.about.help, header, [_cells(header, row) for row in rows])
        for item in found.columns
        if item.row is not None
        for header, rows in [(columns(item.row), getattr(outputs, item.name))]
        if rows
    ]


def _cells(header: Iterable[Any], row: Any) -> list[tuple[Any, Any]]:
    return [(getattr(row, column.name), column.about) for column in header]


@dataclass(frozen=True)
class Control:
    """An input as the form shows it; ``place`` is where its slider stands, of 1000."""

    entry: Entry
    value: str
    place: int | None
    problem: str

    @property
    def suggestions(self) -> tuple[str, ...]:
        return self.entry.about.suggestions() if self.entry.about.suggestions else ()

    @property
    def choices(self) -> tuple[str, ...]:
        return ("yes", "no") if self.entry.kind is bool else self.entry.choices


def _groups(found: Calculator[Any, Any], given: Mapping[str, str], worked: Worked) -> list[tuple[str, list[Control]]]:
    """The form's parts in the order in which they are declared."""
    groups: dict[str, list[Control]] = {}
    for entry in found.entries:
        value = given.get(entry.name, written(entry.default))
        control = Control(entry, value, place(entry, value), worked.words.get(entry.name, ""))
        groups.setdefault(entry.about.group, []).append(control)
    return list(groups.items())


def _given(request: Request) -> dict[str, str]:
    return {key: str(text) for key, text in request.GET.items() if key not in theory_facts.SOURCES}


def _find(name: str) -> Calculator[Any, Any]:
    found = registry.BY_NAME.get(name)
    if found is None:
        raise Http404(f"There is no calculator called {name}. {reverse('theory')} lists them.")
    return found


def _twin(request: Request, found: Calculator[Any, Any], worked: Worked, form: str) -> HttpResponseBase:
    if worked.faults:
        faults = [plain(fault) for fault in worked.faults]
        return JsonResponse({"calculator": found.name, "faults": faults}, status=422)
    data = {"calculator": found.name, "inputs": plain(worked.inputs), "outputs": plain(worked.outputs)}
    return answer(
        request,
        form,
        "theory/calculator.html",
        {},
        rows=lambda: _lines(found, worked),
        columns=_SHEET,
        data=lambda: data,
    )


def _lines(found: Calculator[Any, Any], worked: Worked) -> Iterable[Row]:
    """The sheet: a line per input, per output, and per cell of a table."""
    for entry in found.entries:
        yield _line("input", None, entry.name, entry.about, getattr(worked.inputs, entry.name))
    for column in found.columns:
        value = getattr(worked.outputs, column.name)
        if column.row is None:
            yield _line("output", None, column.name, column.about, value)
            continue
        for number, row in enumerate(value, start=1):
            for cell in columns(column.row):
                yield _line(column.name, number, cell.name, cell.about, getattr(row, cell.name))


def _line(part: str, row: int | None, name: str, about: Any, value: Any) -> Row:
    shown = written(value) if isinstance(value, tuple) else plain(value)
    return {"part": part, "row": row, "name": name, "label": about.label, "value": shown, "unit": about.unit}
